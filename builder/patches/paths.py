"""Paths as diffs write them: quoted or bare, with a/ and b/, never outside the tree."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb'\\(?:([0-7]{3})|([abtnvfr"\\])|(.?))', re.DOTALL)
_LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')


class Unsafe(ValueError):
    """A path that must not be written, with the reason."""


def name_of(text: bytes, *, strip: int) -> str | None:
    """The path on a `---`, `+++` or `rename` line; None for /dev/null. Raises Unsafe."""
    text = text.rstrip(b"\n").removesuffix(b"\r")
    if text.startswith(b'"'):
        match = _QUOTED.match(text)
        if match is None:
            raise Unsafe("a quoted name without its closing quote")
        raw = unquoted(match[1])
    else:
        raw = text.partition(b"\t")[0] if strip else text
    if strip and raw == b"/dev/null":
        return None
    return _safe(_stripped(raw) if strip else raw)


def pair_of(text: bytes) -> tuple[str, str] | None:
    """Both paths of a `diff --git` line, or None where bare names with spaces leave it open."""
    text = text.rstrip(b"\n").removesuffix(b"\r")
    if b'"' in text:
        parts = _split_quoted(text)
        return (_safe(_stripped(parts[0])), _safe(_stripped(parts[1]))) if parts else None
    middle = (len(text) - 1) // 2
    if text[middle : middle + 1] == b" " and _stripped(text[:middle]) == _stripped(text[middle + 1 :]):
        name = _safe(_stripped(text[:middle]))
        return name, name
    words = text.split(b" ")
    return (_safe(_stripped(words[0])), _safe(_stripped(words[1]))) if len(words) == 2 else None


def unquoted(text: bytes) -> bytes:
    r"""The bytes of a C-style quoted name without its quotes: `\t`, `\"`, `\303\244`. Raises Unsafe."""

    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            value = int(match[1], 8)
            if value > 255:
                raise Unsafe(f"\\{match[1].decode()} is no byte")
            return bytes([value])
        if match[2]:
            return bytes([_LETTERS[match[2][0]]])
        raise Unsafe(f"an unknown escape in a quoted name: {match[0]!r}")

    return _ESCAPE.sub(one, text)


def quoted(path: str, prefix: str = "") -> str:
    """A path as git writes it in a diff: quoted only where control characters or quotes need it."""
    text = prefix + path
    if not re.search(r'[\x00-\x1f\x7f"\\]', text):
        return text
    back = {value: f"\\{chr(key)}" for key, value in _LETTERS.items()}
    return (
        '"' + "".join(back.get(ord(c), c if ord(c) > 31 and ord(c) != 127 else f"\\{ord(c):03o}") for c in text) + '"'
    )


def _split_quoted(text: bytes) -> tuple[bytes, bytes] | None:
    parts: list[bytes] = []
    rest = text
    while rest and len(parts) < 2:
        match = _QUOTED.match(rest)
        if match:
            parts.append(unquoted(match[1]))
            rest = rest[match.end() :].removeprefix(b" ")
        elif parts:
            parts.append(rest)
            rest = b""
        else:
            head, _, rest = rest.partition(b' "')
            parts.append(head)
            rest = b'"' + rest
    return (parts[0], parts[1]) if len(parts) == 2 else None


def _stripped(raw: bytes) -> bytes:
    if raw.startswith(b"/"):
        raise Unsafe(f"an absolute path: {raw.decode(errors='replace')}")
    head, slash, rest = raw.partition(b"/")
    if not slash or not rest or head == b"..":
        raise Unsafe(f"{raw.decode(errors='replace')!r} has no a/ or b/ in front: make patches with `git diff`")
    return rest


def _safe(raw: bytes) -> str:
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        raise Unsafe(f"the name {raw!r} is not UTF-8") from None
    parts = path.split("/")
    if path.startswith("/"):
        raise Unsafe(f"an absolute path: {path}")
    if ".." in parts or "." in parts or "" in parts or "\0" in path:
        raise Unsafe(f"a path that leaves or confuses the tree: {path}")
    if any(part.lower() == ".git" for part in parts):
        raise Unsafe(f"a path into git's own folder: {path}")
    return path
