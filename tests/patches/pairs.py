"""Seeded pairs of a tree and a patch: good ones, drifted trees, damaged patches; and the two oracles."""

from __future__ import annotations

import difflib
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pygit2

Tree = dict[str, bytes]

_NAMES = ("a.py", "deep/er/b.c", "with space.txt", "über/ñ.py", "tests/test_a.py", "x\ty.txt")
_COMMON = ("", "    return None", "}", "", "    else:", "#")
_MARK = b"\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Pair:
    """A tree, a patch, and how they were made."""

    seed: int
    tree: Tree
    patch: bytes
    story: str


def make_pair(seed: int) -> Pair:
    """The pair of a seed; the same on every machine."""
    rng = random.Random(seed)  # noqa: S311  test data, and it must be repeatable
    before = {name: _content(rng) for name in rng.sample(_NAMES, rng.randint(1, 3))}
    after, edits = _edited(rng, before)
    patch = diff_of(rng, before, after)
    drift, tree = _drifted(rng, before, after)
    damage, patch = _damaged(rng, patch)
    return Pair(seed, tree, patch, f"{edits}; tree {drift}; patch {damage}")


def _content(rng: random.Random) -> bytes:
    lines = [
        rng.choice(_COMMON) if rng.random() < 0.3 else f"line {rng.randint(0, 400)}"
        for _ in range(rng.choice((1, 5, 30, 60)))
    ]
    if rng.random() < 0.15:  # the same block twice
        block = lines[: rng.randint(5, 12)]
        lines += block + lines[-3:] + block
    newline = "\r\n" if rng.random() < 0.08 else "\n"
    text = newline.join(lines) + newline
    return (text.rstrip("\r\n") if rng.random() < 0.15 else text).encode() or b"\n"


def _edited(rng: random.Random, before: Tree) -> tuple[Tree, str]:
    after = dict(before)
    kind = rng.random()
    name = rng.choice(sorted(before))
    if kind < 0.06:
        del after[name]
        return after, "delete"
    if kind < 0.12:
        after["new/file.py"] = _content(rng)
        return after, "create"
    for path in rng.sample(sorted(before), rng.randint(1, len(before))):
        after[path] = _changed(rng, before[path], rng.randint(1, 4))
    return (after, "modify") if after != before else _edited(rng, before)


def _changed(rng: random.Random, data: bytes, count: int) -> bytes:
    lines = data.splitlines(keepends=True)
    end = b"\r\n" if b"\r\n" in data else b"\n"
    for _ in range(count):
        at = rng.randint(0, len(lines))
        take = rng.choice((0, 0, 1, 1, 2, 5))
        new = [b"new %d" % rng.randint(0, 99) + end for _ in range(rng.choice((0, 1, 1, 2, 6)))]
        lines[at : at + take] = new
    fixed = [line if line.endswith(b"\n") else line + end for line in lines[:-1]]
    return b"".join(fixed + lines[-1:])


def diff_of(rng: random.Random, before: Tree, after: Tree) -> bytes:
    """A patch from one tree to the other, in git's form or plain, with 0 to 5 lines of context."""
    context = rng.choice((3, 3, 3, 3, 1, 2, 5, 0))
    git = rng.random() < 0.6
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    return b"".join(_file(path, before.get(path), after.get(path), context, git=git) for path in changed)


def _file(path: str, old: bytes | None, new: bytes | None, context: int, *, git: bool) -> bytes:
    quoted = any(ord(c) < 32 for c in path)
    a, b = (f'"{side}/{path}"'.replace("\t", "\\t") if quoted else f"{side}/{path}" for side in "ab")
    tail = "\t" if " " in path and not quoted else ""
    head = []
    if git:
        head.append(f"diff --git {a} {b}")
        head += ["new file mode 100644"] if old is None else ["deleted file mode 100644"] if new is None else []
        head.append(f"index {_oid(old)}..{_oid(new)}" + (" 100644" if old is not None and new is not None else ""))
    head += [f"--- {'/dev/null' if old is None else a + tail}", f"+++ {'/dev/null' if new is None else b + tail}"]
    hunks = _hunks(old or b"", new or b"", context)
    return "".join(f"{line}\n" for line in head).encode() + hunks


def _oid(data: bytes | None) -> str:
    return "0" * 40 if data is None else str(pygit2.hash(data))


def _hunks(old: bytes, new: bytes, context: int) -> bytes:
    a, b = ([line.decode("latin-1") for line in data.splitlines(keepends=True)] for data in (old, new))
    out = []
    for line in list(difflib.unified_diff(a, b, n=context))[2:]:
        raw = line.encode("latin-1")
        out.append(raw if raw.endswith(b"\n") else raw + b"\n" + _MARK)
    return b"".join(out)


def _drifted(rng: random.Random, before: Tree, after: Tree) -> tuple[str, Tree]:
    kind = rng.choice(
        ("same", "same", "above", "above", "random", "random", "applied", "gone", "half", "double", "doubled")
    )
    tree = dict(before)
    name = rng.choice(sorted(before))
    if kind == "above":
        tree[name] = b"".join(b"top %d\n" % n for n in range(rng.randint(1, 9))) + tree[name]
    elif kind == "random":
        tree[name] = _changed(rng, tree[name], rng.randint(1, 3))
    elif kind == "applied":
        tree = dict(after)
    elif kind == "half":
        tree[name] = after.get(name, b"")
    elif kind == "gone":
        del tree[name]
    elif kind == "double":
        tree[name] = tree[name] + b"\n" + tree[name]
    elif kind == "doubled":
        tree[name] = after.get(name, b"") + b"\n" + tree[name]
    return kind, tree


def _damaged(rng: random.Random, patch: bytes) -> tuple[str, bytes]:
    kind = rng.choice((*("whole",) * 7, "count", "drop", "crlf", "cut", "space", "start", "noise", "twice"))
    lines = patch.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    headers = [index for index, line in enumerate(lines) if line.startswith(b"@@ ")]
    if kind in {"count", "start"} and headers:
        at = rng.choice(headers)
        lines[at] = _wrong_header(rng, kind, lines[at])
    elif kind == "drop":
        del lines[at]
    elif kind == "crlf":
        lines = [line.replace(b"\n", b"\r\n") for line in lines]
    elif kind == "cut":
        del lines[at:]
    elif kind == "space":
        lines[at] = lines[at].replace(b" ", b"  ", 2)
    elif kind in {"noise", "twice"}:
        lines[at:at] = [b"noise\n"] if kind == "noise" else lines
    return kind, b"".join(lines)


def _wrong_header(rng: random.Random, kind: str, line: bytes) -> bytes:
    if kind == "start":
        return line.replace(b"-", b"-1", 1)
    count = _count(line)
    return line.replace(b",%d " % count, b",%d " % max(0, count + rng.choice((-1, 1))), 1)


def _count(header: bytes) -> int:
    word = header.split(b" ")[1]
    return int(word.partition(b",")[2] or 1)


@dataclass(frozen=True, slots=True)
class Oracle:
    """A program that applies patches: its check, and the tree it makes (None when it refuses)."""

    name: str
    check: tuple[str, ...]
    apply: tuple[str, ...]

    def result(self, pair: Pair, folder: Path) -> Tree | None:
        """What the program makes of a pair, in a folder of its own."""
        shutil.rmtree(folder, ignore_errors=True)
        _write(folder / "tree", pair.tree)
        (folder / "in.patch").write_bytes(pair.patch)
        if not self._run(self.check, folder) or not self._run(self.apply, folder):
            return None  # patch's dry run passes a few that it then refuses
        return _read(folder / "tree")

    def _run(self, command: tuple[str, ...], folder: Path) -> bool:
        done = subprocess.run(command, cwd=folder / "tree", capture_output=True, check=False, env=_ENVIRONMENT)
        return done.returncode == 0


_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nonexistent",
}
GIT = Oracle("git", ("git", "apply", "--check", "../in.patch"), ("git", "apply", "../in.patch"))
_PATCH = ("patch", "-p1", "--fuzz=0", "--force", "--binary", "--no-backup-if-mismatch", "-i", "../in.patch")
PATCH = Oracle("patch", (*_PATCH, "--dry-run"), _PATCH)


def _write(folder: Path, tree: Tree) -> None:
    folder.mkdir(parents=True)
    for path, data in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _read(folder: Path) -> Tree:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
