"""A reader that walks an index as a client would, and checks every byte that a page vouches for."""

from __future__ import annotations

import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin


class Links(HTMLParser):
    """Every link of a page, as (href, attributes, text)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            values = {name: value or "" for name, value in attrs}
            self.found.append((values.pop("href"), values, ""))

    def handle_data(self, data: str) -> None:
        if self.found and not self.found[-1][2]:
            href, values, _ = self.found[-1]
            self.found[-1] = (href, values, data)


def links_of(html: bytes) -> list[tuple[str, dict[str, str], str]]:
    parser = Links()
    parser.feed(html.decode())
    return parser.found


def listed(index: Path) -> dict[str, str]:
    """File name → sha256 of all that the HTML pages offer; every link's bytes are checked on the way."""
    found: dict[str, str] = {}
    for project in links_of(_read(index / "simple/index.html")):
        page = f"http://h/simple/{project[0]}"
        for href, attributes, name in links_of(_read(index / f"simple/{project[0]}index.html")):
            url, fragment = urldefrag(urljoin(page, href))
            path = index / unquote(url.removeprefix("http://h/"))
            assert fragment == f"sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"
            metadata = hashlib.sha256(Path(f"{path}.metadata").read_bytes()).hexdigest()
            assert attributes["data-core-metadata"] == f"sha256={metadata}"
            found[name] = fragment.removeprefix("sha256=")
    return found


def listed_json(index: Path) -> dict[str, str]:
    """The same from the JSON pages."""
    found: dict[str, str] = {}
    for page in sorted(index.glob("simple/*/index.json")):
        for file in json.loads(_read(page))["files"]:
            path = index / unquote(
                urljoin(f"http://h/simple/{page.parent.name}/", file["url"]).removeprefix("http://h/")
            )
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file["hashes"]["sha256"]
            assert path.stat().st_size == file["size"]
            found[file["filename"]] = file["hashes"]["sha256"]
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b'{"files": []}' if path.suffix == ".json" else b""


def snapshot(index: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's bytes and time of writing."""
    return {
        str(path.relative_to(index)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(index.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
