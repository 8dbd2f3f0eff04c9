"""One conversation with the package index: what it has of a project, and an open file.

Pages are found and read by `unearth` (PEP 503 and 691, find-links, netrc, proxies). It swallows
refusals and drops file sizes; a response hook here keeps both.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, cast

import httpx2
from unearth import Link, Package, PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.collector import is_secure_origin
from unearth.fetchers import Fetcher, PyPIClient

from builder.errors import FetchError
from builder.fetch.offers import Candidate, Listing, Offer
from builder.fetch.settings import Index
from builder.run import masked
from builder.store import sha256_of

TRIES: Final = 4
"""The first attempt and three more."""

BACKOFF: Final = 0.5
"""Seconds before the second attempt; doubled before each further one."""

T = TypeVar("T")

_JSON_PAGE = "application/vnd.pypi.simple.v1+json"

logging.getLogger("unearth").addHandler(logging.NullHandler())
logging.getLogger("unearth").propagate = False


class Unreachable(Exception):
    """A place did not answer, or asked us to come back later; worth another attempt."""


class Session:
    """An open client for one Index; safe to share between threads; closed by `with`."""

    def __init__(self, index: Index, pause: Callable[[float], object] = time.sleep) -> None:
        self.index = index
        self.pause = pause
        self.client = _client(index)
        self.client.event_hooks = {"response": [self._seen]}
        self._sizes: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._listings: dict[str, Listing] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()

    def listing(self, project: str) -> Listing:
        """Every offer for a project, find-links first; asked once a session."""
        with self._lock:
            if project not in self._listings:
                self._listings[project] = self._ask(project)
            return self._listings[project]

    def _ask(self, project: str) -> Listing:
        listing = Listing()
        for finder in _finders(self.index, self.client):
            place = masked(finder.sources[0]["url"])
            try:
                listing.offers.extend(map(self._offer, self._packages(finder, project)))
            except (Unreachable, ValueError) as error:
                listing.failures.append(f"{place}: {masked(str(error))}")
        return listing

    def _packages(self, finder: PackageFinder, project: str) -> list[Package]:
        """The packages of one place; Unreachable after the last attempt, ValueError if unusable."""
        if not _secure(finder, self.client):
            raise ValueError("not https and not a trusted host; add it to pip's trusted-host if you mean it")
        self._refused.clear()
        found = self.patiently(lambda: list(finder.find_all_packages(project, allow_yanked=True)))
        if not found and self._refused:
            url, status = next(iter(self._refused.items()))
            raise ValueError(f"{url} refused with HTTP {status}; it wants a login (netrc or the URL)")
        return found

    def patiently(self, attempt: Callable[[], T]) -> T:
        """The attempt's result; three more attempts with growing pauses, then Unreachable."""
        for number in range(TRIES):
            try:
                return attempt()
            except (httpx2.HTTPError, Unreachable) as error:
                if number == TRIES - 1:
                    raise Unreachable(str(error) or type(error).__name__) from error
                self.pause(BACKOFF * 2**number)
        raise AssertionError

    def _seen(self, response: httpx2.Response) -> None:
        """Keep what unearth drops: refusals, and the file sizes of JSON pages (PEP 700)."""
        if response.status_code >= 500 or response.status_code == 429:
            raise Unreachable(f"HTTP {response.status_code} from {response.url}")
        if response.status_code in {401, 403}:
            self._refused[masked(str(response.url))] = response.status_code
        if response.headers.get("Content-Type", "").lower().startswith(_JSON_PAGE):
            response.read()
            for file in response.json().get("files", []):
                self._sizes[file.get("hashes", {}).get("sha256") or file["filename"]] = file.get("size") or 0

    def _offer(self, package: Package) -> Offer:
        link: Link = package.link
        stated = (link.hash_option or {}).get("sha256", [""])[0]
        size = self._sizes.get(stated) or self._sizes.get(link.filename, 0)
        if link.is_file and link.file_path.is_file():
            stated, size = stated or sha256_of(link.file_path), link.file_path.stat().st_size
        return Offer(Candidate(link.filename, package.version or "", stated, size), link.url_without_fragment)


def _client(index: Index) -> PyPIClient:
    verify: ssl.SSLContext | bool = True
    try:
        if index.cert:
            verify = ssl.create_default_context()
            folder = Path(index.cert).is_dir()
            verify.load_verify_locations(**{"capath" if folder else "cafile": index.cert})
        client = PyPIClient(
            trusted_hosts=index.trusted_hosts,
            verify=verify,
            cert=index.client_cert or None,
            timeout=httpx2.Timeout(index.timeout, connect=min(index.timeout, 10.0)),
            follow_redirects=True,
            proxy=index.proxy or None,
        )
    except (OSError, ValueError) as error:
        raise FetchError(
            f"cannot use the configured certificates or proxy: {masked(str(error))}",
            where=masked(f"{index.cert} {index.client_cert} {index.proxy}".strip()),
            remedy="correct pip's cert, client-cert and proxy settings",
        ) from error
    client.auth = MultiDomainBasicAuth(prompting=False, index_urls=[index.default, *index.extra])
    return client


def _finders(index: Index, client: PyPIClient) -> list[PackageFinder]:
    """One finder a place, so that one silent place does not hide the others."""
    fetcher = cast("Fetcher", client)
    folders = [place for place in index.find_links if "://" in place or Path(place).exists()]
    finders = [PackageFinder(fetcher, find_links=[place], ignore_compatibility=True) for place in folders]
    if index.no_index:
        return finders
    default = [index.default] if index.default else []  # without a URL the library takes its own default
    places = [default, *([url] for url in index.extra)]
    return [*finders, *(PackageFinder(fetcher, index_urls=urls, ignore_compatibility=True) for urls in places)]


def _secure(finder: PackageFinder, client: PyPIClient) -> bool:
    url = finder.sources[0]["url"]
    return "://" not in url or is_secure_origin(cast("Fetcher", client), Link(url))
