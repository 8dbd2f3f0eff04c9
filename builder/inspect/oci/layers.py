"""Layers laid over one another: each is read once as a stream, proven, and merged with its whiteouts."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from builder.inspect.oci.facts import Entry, LayerFacts, Root, resolved
from builder.inspect.oci.layout import Blob, Layout, damaged
from builder.inspect.oci.streams import CHUNK, Stream, inflated

MAX_BYTES: Final = 64 << 30
"""Unpacked bytes of one layer; the CUDA and torch layers together have 8 GB."""

MAX_MEMBERS: Final = 500_000
"""Members of all layers; aeon7's image has 55,000, and 10,000 more in its base."""

MAX_KEPT: Final = 64 << 20
"""Bytes of all small files that are kept for rules to read; aeon7's RECORDs have 6 MB."""

_KEPT_SIZE: Final = 16 << 20
_MAX_HEADER: Final = 1 << 20
_HEAD: Final = 20
_BLOCK: Final = 512
_NUMBERS: Final = ((100, 108), (108, 116), (116, 124), (124, 136), (136, 148))  # mode, owner, group, size and time
_OCTAL = re.compile(rb" *[0-7]*[ \0]*")
_BINARY: Final = (0x80, 0xFF)
_EXTENDED: Final = frozenset(b"xgXLK")
_MIXED: Final = (frozenset(b"xL"), frozenset(b"xK"))
_XATTR: Final = "SCHILY.xattr."
_NAMING: Final = ("path", "linkpath", "size", "uid", "gid")
_KEPT = re.compile(
    r"etc/(?:passwd|group|os-release|ld\.so\.(?:cache|preload)|ld\.so\.conf\.d/[^/]+|.*\.conf)|usr/lib/os-release"
    r"|var/lib/dpkg/status(?:\.d/[^/]+)?|.*\.dist-info/RECORD"
)
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass(slots=True)
class Merged:
    """The file system as it grows, layer by layer."""

    entries: dict[str, Entry] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    members: int = 0
    kept: int = 0

    def admit(self, size: int, where: str) -> None:
        """Count a member, and the bytes of it that are kept. Raises InspectError beyond what memory is given for."""
        self.members += 1
        self.kept += size
        if self.members > MAX_MEMBERS:
            raise damaged(f"its layers have more than {MAX_MEMBERS} members", where)
        if self.kept > MAX_KEPT:
            raise damaged(f"the small files in it that rules read sum to more than {MAX_KEPT} B", where)

    def root(self) -> Root:
        """The finished file system."""
        return Root(dict(sorted(self.entries.items())), {p: t for p, t in self.texts.items() if p in self.entries})


@dataclass(slots=True)
class _Layer:
    """What one tar brings and takes, in its order, before it is laid over the others."""

    paths: list[tuple[str, Entry]] = field(default_factory=list)
    hard: dict[str, str] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    folders: dict[str, bool] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)


def lay(merged: Merged, layout: Layout, blob: Blob, diff_id: str, number: int) -> LayerFacts:
    """Read one layer, prove digest and diff_id, and lay it over `merged`. Raises InspectError."""
    where = f"{layout.place} {blob.digest}"
    with layout.open(blob.digest) as stored:
        packed = _Counted(stored, where)
        plain = _Counted(inflated(packed, where), where)
        layer = _read(plain, where, number, merged)
        plain.drain()
        packed.drain()
    _prove(blob, packed, plain, diff_id, where)
    removed = _apply(merged, layer, where)
    counts = packed.count, plain.count, len(layer.paths)
    return LayerFacts(packed.digest, plain.digest, blob.media_type, *counts, removed)


def _prove(blob: Blob, packed: _Counted, plain: _Counted, diff_id: str, where: str) -> None:
    if blob.digest.startswith("sha256:") and (packed.digest != blob.digest or blob.size not in {-1, packed.count}):
        raise damaged(f"the layer's bytes are {packed.digest}, {packed.count} B, not what its descriptor names", where)
    if plain.digest != diff_id:
        raise damaged(f"the unpacked layer is {plain.digest}, the config says {diff_id or 'nothing'}", where)


class _Counted(io.RawIOBase):
    """A stream that is digested and counted as it is read."""

    def __init__(self, inner: Stream, where: str) -> None:
        self._inner, self._where, self._hash = inner, where, hashlib.sha256()
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._inner.read(size if 0 <= size <= CHUNK else CHUNK)
        self._hash.update(data)
        self.count += len(data)
        if self.count > MAX_BYTES:
            raise damaged(f"a layer goes on beyond {MAX_BYTES} B", self._where)
        return data

    def drain(self) -> None:
        while self.read(CHUNK):
            pass

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class _Members(io.RawIOBase):
    """The plain tar as tarfile wants it: exact amounts, and seeks, which only go forward.

    Between one member's data and the next only headers are read, into memory: `data` says that data comes, and what
    is read without it may not sum to more than `_MAX_HEADER`. Headers that a runtime's reader could take for something
    else than tarfile does are refused, and `ended` tells an end that all readers see from a header that stops one.
    """

    def __init__(self, inner: Stream, where: str) -> None:
        self._inner, self._where = inner, where
        self._at = self._headers = 0
        self._extended: list[int] = []
        self._body = False
        self.data = self.ended = False

    def read(self, size: int = -1, /) -> bytes:
        if not self.data:
            self._headers += size
            if size < 0 or self._headers > _MAX_HEADER:
                raise damaged(f"a member of a layer has headers of more than {_MAX_HEADER} B", self._where)
        parts, left = [], size
        while left > 0 and (data := self._inner.read(left)):
            parts.append(data)
            left -= len(data)
        self._at += size - left
        read = parts[0] if len(parts) == 1 else b"".join(parts)
        if not self.data:
            self._look(read)
        return read

    def _look(self, read: bytes) -> None:
        """A header, or the body of the one before it; tarfile reads nothing else here but a byte of padding."""
        if self._body or len(read) == 1:
            self._body = False
            return
        self.ended = not read.strip(b"\0")
        if self.ended:
            return
        why = _unclear(read, self._extended)
        if why:
            raise damaged(f"a member of a layer has a header that not every reader takes alike: {why}", self._where)
        self._body = read[156] in _EXTENDED
        self._extended += [read[156]] if self._body else []

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence or offset < self._at:
            raise damaged("a member of a layer points backwards", self._where)
        while self._at < offset and (data := self._inner.read(min(CHUNK, offset - self._at))):
            self._at += len(data)
        return self._at

    def tell(self) -> int:
        return self._at

    def next(self) -> None:
        """Another member begins."""
        self.data, self._headers = False, 0
        self._extended.clear()


def _unclear(block: bytes, before: Sequence[int]) -> str:
    """Why a header may be read in two ways, or nothing; `before` are the types of the extensions it comes after."""
    if len(block) < _BLOCK:
        return "it is cut"
    if any(block[a] not in _BINARY and _OCTAL.fullmatch(block[a:b]) is None for a, b in _NUMBERS):
        return "its numbers are no plain octal"
    if (block[345] and block[257:263] != b"ustar\0") or block[508:] == b"tar\0":
        return "its name goes on where only some look"
    kinds = {*before, block[156]}
    if block[156] == ord("X") or block[156] in set(before) - {ord("g")} or any(pair <= kinds for pair in _MIXED):
        return "more than one extension says its name"
    if block[156] == 0 and before:  # to Go a folder where that name ends in /, whose data it reads as members
        return "its kind is not said, and an extension names it"
    return ""


def _read(plain: Stream, where: str, number: int, merged: Merged) -> _Layer:
    layer, source = _Layer(), _Members(plain, where)
    with tarfile.open(fileobj=source, mode="r:") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would keep each
            _refuse_unclear(member, tar.pax_headers, where)
            source.data = True
            path = _inside(member.name, where)
            merged.admit(member.size if _is_kept(member, path) else 0, where)
            if path:
                _refuse_again(layer, path, where, folder=member.isdir())
                _note(layer, tar, member, path, number)
            source.next()
        if not source.ended:
            raise damaged("a layer has a header that cannot be read, with more behind it", where)
    return layer


def _refuse_unclear(member: tarfile.TarInfo, everywhere: Mapping[str, str], where: str) -> None:
    """Extensions that runtimes ignore, and take otherwise than tarfile. Raises InspectError."""
    if set(everywhere) - {"comment"}:
        raise damaged("a layer has global headers, which runtimes do not apply", where)
    said = {key: value for key, value in member.pax_headers.items() if key != "comment"}
    if member.issparse() or any(key.startswith("GNU.sparse") for key in said):
        raise damaged(f"{member.name!r} is a sparse file, whose size is only said", where)
    if any(said.get(key) == "" for key in _NAMING):
        raise damaged(f"{member.name!r} has an empty header extension, which runtimes pass over", where)


def _refuse_again(layer: _Layer, path: str, where: str, *, folder: bool) -> None:
    """Runtimes unpack in order, so that the last of a name wins; none but folders need come again."""
    if path in layer.folders and not (folder and layer.folders[path]):
        raise damaged(f"a layer holds {path!r} twice", where)
    layer.folders[path] = folder


def _is_kept(member: tarfile.TarInfo, path: str) -> bool:
    return member.isreg() and member.size <= _KEPT_SIZE and _KEPT.fullmatch(path) is not None


def _inside(name: str, where: str) -> str:
    path = PurePosixPath(name.removeprefix("./"))
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise damaged(f"a layer holds {name!r}, which lies outside its root", where)
    return "" if str(path) == "." else str(path)


def _note(layer: _Layer, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, number: int) -> None:
    folder, _, name = path.rpartition("/")
    if name == _OPAQUE:
        layer.opaque.add(folder)
    elif name.startswith(_WHITEOUT):
        layer.gone.add(f"{folder}/{name.removeprefix(_WHITEOUT)}".removeprefix("/"))
    else:
        named = tuple(sorted(key.removeprefix(_XATTR) for key in member.pax_headers if key.startswith(_XATTR)))
        entry = Entry(_kind(member), member.mode & 0o7777, (member.uid, member.gid), layer=number, xattrs=named)
        if member.islnk():
            layer.hard[path] = member.linkname
        elif entry.kind == "file":
            entry = _file(layer, tar, member, path, entry)
        layer.paths.append((path, replace(entry, target=member.linkname) if entry.kind == "link" else entry))


def _kind(member: tarfile.TarInfo) -> str:
    kinds = {"file": member.isreg(), "folder": member.isdir(), "link": member.issym()}
    return next((kind for kind, true in kinds.items() if true), "device")


def _file(layer: _Layer, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, entry: Entry) -> Entry:
    stream = tar.extractfile(member)
    digest, head, kept = hashlib.sha256(), b"", bytearray()
    keep = _is_kept(member, path)
    while stream is not None and (data := stream.read(CHUNK)):
        digest.update(data)
        head = head or data[:_HEAD]
        if keep:
            kept += data
    if keep:
        layer.texts[path] = bytes(kept)
    return replace(entry, size=member.size, sha256=digest.hexdigest(), head=head)


def _apply(merged: Merged, layer: _Layer, where: str) -> tuple[str, ...]:
    """Lay it over; the paths that it takes away. Whiteouts take from the layers below only, wherever they stand."""
    removed = _take(merged, layer)
    for path, entry in layer.paths:
        real = _landing(merged, path)
        _clear(merged, real, entry)
        if path in layer.hard:
            _join(merged, real, layer.hard[path], entry, where)
        else:
            merged.entries[real] = entry
            merged.texts.pop(real, None)
            merged.texts |= {real: layer.texts[path]} if path in layer.texts else {}
    return removed


def _join(merged: Merged, path: str, linked: str, entry: Entry, where: str) -> None:
    """A hard link. It is one file by two names: the mode and the owner that the link gives are of both."""
    source = resolved(merged.entries, _inside(linked, where))
    original = merged.entries.get(source)
    if original is None or original.kind == "folder":
        raise damaged(f"{path} is a hard link to {linked!r}, which is no file", where)
    if original.kind == "file":
        xattrs = tuple(sorted({*original.xattrs, *entry.xattrs}))
        original = replace(original, mode=entry.mode, owner=entry.owner, layer=entry.layer, xattrs=xattrs)
        merged.entries[source] = original
    merged.entries[path] = replace(original, layer=entry.layer)
    text = merged.texts.get(source)
    merged.texts.pop(path, None)  # of what lay there before
    if text is not None:
        merged.texts[path] = text


def _take(merged: Merged, layer: _Layer) -> tuple[str, ...]:
    """Take what whiteouts name, links in their folders followed; an opaque folder that hides nothing takes nothing."""
    gone = {_landing(merged, path) for path in layer.gone}
    opaque = {resolved(merged.entries, folder) for folder in layer.opaque}
    if not gone and not opaque:
        return ()
    taken = {path for path in merged.entries if _taken(path, gone, opaque)}
    merged.entries = {path: entry for path, entry in merged.entries.items() if path not in taken}
    return tuple(sorted(gone | taken))


def _landing(merged: Merged, path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{resolved(merged.entries, folder)}/{name}".removeprefix("/")


def _taken(path: str, gone: Collection[str], opaque: Collection[str]) -> bool:
    above = [str(parent) for parent in PurePosixPath(path).parents]
    above[-1] = ""
    return path in gone or any(folder in gone or folder in opaque for folder in above)


def _clear(merged: Merged, path: str, entry: Entry) -> None:
    """A folder that gives way to something else takes along what was in it."""
    before = merged.entries.get(path)
    if before is not None and before.kind == "folder" and entry.kind != "folder":
        merged.entries = {p: e for p, e in merged.entries.items() if not p.startswith(f"{path}/")}
