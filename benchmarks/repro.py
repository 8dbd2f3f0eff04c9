"""Two builds of one recipe in different folders, by different users, on different days: the same bytes or not.

Run with `python -m benchmarks.repro [recipe=smoke] [store=PATH] [jobs=N] [user=nobody]`, or `nox -s repro`.
Both begin with empty work folders and empty compiler caches. They share the canonical path by design, one by one;
checkout, store, output folder, user (as root), dates of files and, with faketime installed, the builder's clock differ.
Wheels must be identical. Objects are compared too, and what differs in them is named with its cause.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.lab import Built, Lab, laboratory, options_of, say
from builder.errors import InspectError
from builder.inspect.elf import Elf, parse

CAUSES = (
    (b"tmpxft_", "nvcc names temporary files after its process; stripped from the wheel"),
    (b"_GLOBAL__", "a name made from the path or the content of a source"),
    (b"/var/", "a path"),
    (b"/tmp/", "a path"),
)
OTHER_DAY = "2027-08-09 10:11:12"


def main(argv: list[str]) -> None:
    """Build twice, compare; ends with 1 when a wheel differs."""
    options = options_of(argv)
    recipe = options.get("recipe", "smoke")
    with laboratory(options) as lab:
        one = _first(lab, recipe)
        objects = _objects(lab)
        kept = lab.folder / "objects"
        _keep(objects, lab.root, kept)
        lab.forget_work()
        two = _second(lab, recipe, options.get("user", "nobody"))
        same = _compare_wheels(one, two)
        _compare_objects(kept, lab.root)
    sys.exit(0 if same else 1)


def _first(lab: Lab, recipe: str) -> Built:
    built = lab.build(lab.checkout("first"), lab.store("first-store"), recipe, f"out={lab.folder / 'first-out'}")
    say(f"first build: {built.seconds:.0f} s, {built.hits[1]} misses")
    return built


def _second(lab: Lab, recipe: str, user: str) -> Built:
    """Other folders, another umask, files of another year; another user and another day where that can be."""
    place = lab.folder / "elsewhere/with another/depth"
    place.mkdir(parents=True)
    other = replace(lab, folder=place)
    checkout, store, out = other.checkout("second"), other.store("second-store"), place / "second-out"
    for path in checkout.rglob("*"):
        os.utime(path, (1e9, 1e9))
    clock = [tool, OTHER_DAY] if (tool := shutil.which("faketime")) else []
    account = _other_user(user)
    if account:
        _give(lab.folder, place, lab.root, pwd.getpwnam(user))
    home = {"HOME": str(place), "TZ": "Asia/Tokyo", "LANG": "C"}
    who, when = user if account else "the same user", OTHER_DAY if clock else "the same day"
    say(f"second build: {who}, {when}")
    built = other.build(checkout, store, recipe, f"out={out}", env=home, before=[*account, *clock])
    say(f"second build: {built.seconds:.0f} s, {built.hits[1]} misses")
    return built


def _other_user(name: str) -> list[str]:
    """The words that make a command that user's; none where we are not root, or our Python is hidden from others."""
    tool = shutil.which("setpriv")
    if os.geteuid() != 0 or tool is None:
        return []
    account = pwd.getpwnam(name)
    words = [tool, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    # Through another program: the first one is still found with root's rights.
    done = subprocess.run([*words, "env", sys.executable, "-c", ""], capture_output=True, check=False)
    return words if done.returncode == 0 else []


def _give(lab: Path, place: Path, root: Path, who: pwd.struct_passwd) -> None:
    """Folders become the user's; files stay as they are, because they are links to the caller's."""
    lab.chmod(0o711)
    place.parent.parent.chmod(0o711)
    for parent, folders, _ in os.walk(place):
        for name in [".", *folders]:
            os.chown(Path(parent, name), who.pw_uid, who.pw_gid)
    os.chown(place.parent, who.pw_uid, who.pw_gid)
    root.mkdir(mode=0o700)
    os.chown(root, who.pw_uid, who.pw_gid)


def _objects(lab: Lab) -> list[Path]:
    return sorted(path for path in (lab.root / "src").rglob("*.o") if path.is_file())


def _keep(objects: Sequence[Path], root: Path, place: Path) -> None:
    for path in objects:
        to = place / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


def _compare_wheels(one: Built, two: Built) -> bool:
    same = True
    for name, digest in sorted(one.digests.items()):
        other = two.digests.get(name, "is missing")
        say(f"{'identical' if digest == other else 'DIFFERENT'}: {name} {digest[:16]} {other[:16]}")
        if digest != other:
            same = False
            places = [Path(built.document["folder"]) / name for built in (one, two)]
            for line in _wheel_differences(*places) if places[1].is_file() else ():
                say(f"    {line}")
    return same


def _wheel_differences(one: Path, two: Path) -> Iterator[str]:
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(two) as second:
        names = sorted({*first.namelist(), *second.namelist()})
        for name in names:
            if name not in first.namelist() or name not in second.namelist():
                yield f"{name}: only in one of them"
            elif (before := first.read(name)) != (after := second.read(name)):
                yield f"{name}: {'; '.join(differences(before, after))}"


def _compare_objects(kept: Path, root: Path) -> None:
    paths = sorted(path for path in kept.rglob("*.o"))
    found: dict[str, list[str]] = {}
    for path in paths:
        other = root / path.relative_to(kept)
        before, after = path.read_bytes(), other.read_bytes() if other.is_file() else b""
        if hashlib.sha256(before).digest() != hashlib.sha256(after).digest():
            found.setdefault("; ".join(differences(before, after)), []).append(path.name)
    say(f"objects: {len(paths) - sum(map(len, found.values()))} of {len(paths)} identical as they are")
    for cause, names in found.items():
        say(f"    {len(names)} differ: {cause} (for example {names[0]})")


def differences(before: bytes, after: bytes) -> list[str]:
    """Each section that differs, with the cause where it is known; one entry for what is no ELF file."""
    try:
        one, two = parse(memoryview(before), "one"), parse(memoryview(after), "two")
    except InspectError:
        return [f"{len(before)} and {len(after)} bytes, {_first_difference(before, after)}"]
    sections = [(name, data, _section(two, name, number)) for number, (name, data) in enumerate(_sections(one))]
    found = [f"{name}: {_cause(data, other)}" for name, data, other in sections if data != other]
    return found or ["only outside of any section (headers)"]


def _sections(elf: Elf) -> list[tuple[str, bytes]]:
    return [(elf.name(number), bytes(elf.body(number))) for number in range(len(elf.sections))]


def _section(elf: Elf, name: str, number: int) -> bytes:
    sections = _sections(elf)
    return sections[number][1] if number < len(sections) and sections[number][0] == name else b""


def _cause(before: bytes, after: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    near = before[max(0, at - 100) : at + 100]
    known = [cause for mark, cause in CAUSES if mark in near]
    return known[0] if known else _first_difference(before, after)


def _first_difference(before: bytes, after: bytes) -> str:
    pairs = zip(before, after, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))
    return f"first at {at}: {before[at : at + 24]!r} and {after[at : at + 24]!r}"


if __name__ == "__main__":
    main(sys.argv[1:])
