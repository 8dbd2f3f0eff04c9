"""What an image is, as frozen records, and its merged root file system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of the merged file system.

    `kind` is file, folder, link or device; `mode` the permission bits; `size` bytes; `head` a file's first
    20 bytes (an ELF header names its machine there); `layer` the index of the layer it comes from; `xattrs` the
    names of its extended attributes.
    """

    kind: str
    mode: int
    owner: tuple[int, int] = (0, 0)
    size: int = 0
    sha256: str = ""
    target: str = ""
    head: bytes = b""
    layer: int = 0
    xattrs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """One layer: digest and size in bytes as it is pulled, `diff_id` and `unpacked` of the plain tar.

    `removed` are the paths of layers below that it takes away.
    """

    digest: str
    diff_id: str
    media_type: str
    size: int
    unpacked: int
    files: int
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Root:
    """The merged root file system. Paths have no leading slash; `texts` holds the bytes of small files that rules read.

    Links are followed inside the root alone, as a container sees them.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def real(self, path: str) -> str:
        """The path with every link in it followed; a part that is not there stays as written."""
        return resolved(self.entries, path)

    def entry(self, path: str) -> Entry | None:
        """What stands at the path, links followed; None when nothing does."""
        return self.entries.get(self.real(path))

    def text(self, path: str) -> str | None:
        """A small file's text, when the reader kept it."""
        data = self.texts.get(self.real(path))
        return None if data is None else data.decode(errors="replace")

    def below(self, folder: str) -> Iterator[str]:
        """The real paths of everything in a folder, links to it followed."""
        start = f"{self.real(folder)}/".removeprefix("/")
        return (path for path in self.entries if path.startswith(start))


def resolved(entries: Mapping[str, Entry], path: str) -> str:
    """Follow links from the root; gives up, with what it has, in a circle."""
    todo = [part for part in path.split("/") if part not in {"", "."}]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        entry = entries.get("/".join([*done, part]))
        if entry is None or entry.kind != "link" or links >= _MAX_LINKS:
            done.append(part)
            continue
        links += 1
        done = [] if entry.target.startswith("/") else done
        todo = [step for step in entry.target.split("/") if step not in {"", "."}] + todo
    return "/".join(done)


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One image of one platform. `digest` is its manifest's, empty in a docker-archive, which has none.

    `history` has the config's own words, a table a step; not every step makes a layer. `folder` is where it starts,
    `settings` all that the config tells a runtime, as it stands there.
    """

    reference: str
    digest: str
    config_digest: str
    architecture: str
    system: str
    user: str
    env: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    healthcheck: tuple[str, ...]
    created: str
    layers: tuple[LayerFacts, ...]
    root: Root
    history: tuple[Mapping[str, object], ...] = ()
    folder: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
