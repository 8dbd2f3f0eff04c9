"""From a locked file to a blob in the store: resumed, retried, proven, fetched once by all builds.

The client library is imported only when something is missing, so that a build with nothing
to fetch starts fast.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import Timeout
from packaging.utils import canonicalize_name

from builder.errors import BuilderError, DigestError, FetchError, Interrupted, StoreError
from builder.fetch.offers import Candidate
from builder.fetch.settings import Index
from builder.model import LockedFile
from builder.report import Report, size
from builder.run import masked
from builder.store import Store

if TYPE_CHECKING:
    from builder.fetch.offers import Listing, Offer
    from builder.fetch.session import Session

THREADS: Final = 4
_SETTLED: Final = 2.0  # seconds after which the speed so far says something

GRACE: Final = 2.0
"""Seconds that stopped downloads have to end by themselves."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch brought: files that were not in the store before, and bytes over the network."""

    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Meter:
    """Progress of one `fetch_all`, shared by its threads; `stop` ends them at their next chunk."""

    report: Report
    total: int
    named: str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    network: int = 0
    files: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise Interrupted when another thread failed or Ctrl-C was pressed."""
        if self.stop.is_set():
            raise Interrupted("the download was stopped")

    def add(self, count: int, *, network: bool) -> None:
        """Count bytes and show them."""
        with self.lock:
            self.done += count
            self.network += count if network else 0
            elapsed = time.monotonic() - self.started
            left = elapsed * max(self.total - self.done, 0) / max(self.done, 1) if elapsed > _SETTLED else None
            if self.done <= self.total:
                said = f"{self.named}{size(self.done)} of {size(self.total)}"
                self.report.progress(self.done, self.total, said, left)


def fetch(file: LockedFile, store: Store, report: Report, index: Index | None = None) -> Path:
    """The file in the store, fetched and proven if it was not there; errors as `fetch_all`."""
    fetch_all([file], store, report, index)
    path = store.blob(file.sha256)
    if path is None:
        raise StoreError(f"{file.filename} vanished from the store", where=str(store.root), remedy="run again")
    return path


def fetch_all(files: Iterable[LockedFile], store: Store, report: Report, index: Index | None = None) -> Fetched:
    """Bring every file that the store lacks, four at a time.

    Raises FetchError (not found, no network, cut short), DigestError (other bytes), StoreError
    (disk full). Files that were complete by then are kept.
    """
    wanted = {file.sha256: file for file in files}
    missing = [file for file in wanted.values() if store.blob(file.sha256) is None]
    if not missing:
        return Fetched()
    from builder.fetch.session import Session

    store.sweep()
    named = f"{missing[0].filename}: " if len(missing) == 1 else ""
    meter = _Meter(report, sum(file.size for file in missing), named)
    with Session(index or Index.configured(), pause=meter.stop.wait) as session:
        try:
            _in_threads(missing, session, store, meter)
        except FetchError as error:
            raise _with_next_step(error, wanted.values(), store) from error.__cause__
    report.add("bytes fetched", meter.network)
    return Fetched(meter.files, meter.network)


def candidates(project: str, index: Index | None = None) -> list[Candidate]:
    """What the index has of a project, the newest version first.

    Raises FetchError when any configured place cannot be asked: a lock must not depend on luck.
    """
    from builder.fetch.session import Session

    with Session(index or Index.configured()) as session:
        listing = session.listing(canonicalize_name(project))
    if listing.failures:
        raise FetchError(
            f"cannot list the files of {project}",
            where="; ".join(listing.failures),
            remedy="run again with network, or mend the pip or uv settings",
        )
    return list(dict.fromkeys(offer.candidate for offer in listing.offers))


def _in_threads(files: Sequence[LockedFile], session: Session, store: Store, meter: _Meter) -> None:
    """Fetch all; the first failure, or Ctrl-C, stops the others at their next chunk and is raised.

    The threads are daemons, because one may sit in a silent connection: it is left behind then,
    and its part falls to the next `sweep`.
    """
    todo, errors = deque(files), list[BaseException]()

    def work() -> None:
        try:
            while todo and not meter.stop.is_set():
                _one(todo.popleft(), session, store, meter)
        except IndexError:
            return  # another thread took the last one
        except BaseException as error:  # noqa: BLE001  raised below, in the caller's thread
            errors.append(error)
            meter.stop.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(THREADS, len(files)))]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not meter.stop.wait(0.02):
            pass
    finally:
        meter.stop.set()
        _settle(threads)
    for error in sorted(errors, key=lambda error: isinstance(error, Interrupted)):
        raise error


def _settle(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _one(file: LockedFile, session: Session, store: Store, meter: _Meter) -> None:
    with _turn(file, store, meter):
        if store.blob(file.sha256) is None:
            _download(file, session, store, meter)
            with meter.lock:
                meter.files += 1


@contextmanager
def _turn(file: LockedFile, store: Store, meter: _Meter) -> Iterator[None]:
    """Hold the file's lock; while another build holds it, stay ready to stop."""
    with ExitStack() as stack:
        while True:
            meter.check()
            try:
                stack.enter_context(store.lock(f"blob-{file.sha256}", timeout=0.5))
                break
            except StoreError as error:
                if not isinstance(error.__cause__, Timeout):
                    raise
        yield


def _download(file: LockedFile, session: Session, store: Store, meter: _Meter) -> None:
    """Try every place that offers the file until one gives the pinned bytes."""
    listing = session.listing(canonicalize_name(file.project))
    errors: list[BuilderError] = []
    for offer in _matching(file, listing, session.index):
        try:
            sized = file if file.size else replace(file, size=offer.candidate.size)
            meter.total += sized.size - file.size
            store.put(_chunks(sized, offer.url, session, meter), file.sha256, file.filename, lasting=True)
        except (FetchError, DigestError) as error:
            errors.append(error)
        else:
            return
    raise next((error for error in errors if isinstance(error, DigestError)), errors[0])


def _matching(file: LockedFile, listing: Listing, index: Index) -> list[Offer]:
    """The offers of that name and digest; those that state the digest first."""
    named = [offer for offer in listing.offers if offer.candidate.filename == file.filename]
    stated = [offer for offer in named if offer.candidate.sha256 == file.sha256]
    silent = [offer for offer in named if not offer.candidate.sha256]
    if stated or silent:
        return [*stated, *silent]
    if named:
        raise DigestError(
            f"the package index has other bytes under the name {file.filename}",
            where=masked(named[0].url),
            expected=f"sha256 {file.sha256}, the index says {named[0].candidate.sha256}",
            remedy="if upstream really replaced it, review the new file and update the pin",
        )
    raise _not_found(file, listing, index)


def _not_found(file: LockedFile, listing: Listing, index: Index) -> FetchError:
    if listing.failures:
        return FetchError(
            f"cannot reach the package index for {file.filename} (project {file.project})",
            where="; ".join(listing.failures),
            expected=f"sha256 {file.sha256}",
            remedy="run again with network",
        )
    others = list(dict.fromkeys(offer.candidate.version for offer in listing.offers))
    return FetchError(
        f"the package index has no {file.filename} (project {file.project})",
        where=", ".join(index.places()),
        expected=f"version {file.version}; it has {', '.join(others[:8]) or 'no files of that project'}",
        remedy="check the name in the lock, and the pip or uv index settings",
    )


def _chunks(file: LockedFile, url: str, session: Session, meter: _Meter) -> Iterator[bytes]:
    """The file's bytes, resumed where a connection broke; gives up after three tries without any."""
    from builder.fetch import stream

    received, idle = 0, 0
    while True:
        before = received
        try:
            for chunk in stream.read_from(session.client, url, received, file.size):
                meter.check()
                received += len(chunk)
                meter.add(len(chunk), network=not url.startswith("file:"))
                yield chunk
        except stream.Broken as error:
            idle = 0 if received > before else idle + 1
            if idle >= stream.TRIES or meter.stop.is_set():
                raise _cut_short(file, url, received, error) from error
            session.pause(stream.BACKOFF * 2**idle)
        else:
            return


def _cut_short(file: LockedFile, url: str, received: int, error: Exception) -> FetchError:
    total = f"{file.size} bytes" if file.size else "the whole file"
    return FetchError(
        f"the download of {file.filename} was cut short ({masked(str(error))})",
        where=masked(url),
        expected=f"{total}, received {received} bytes",
        remedy="run again with network",
    )


def _with_next_step(error: FetchError, wanted: Iterable[LockedFile], store: Store) -> FetchError:
    here = [store.blob(file.sha256) is not None for file in wanted]
    remedy = f"{error.remedy}; {sum(here)} of {len(here)} files are here already"
    return type(error)(error.what, where=error.where, expected=error.expected, remedy=remedy)
