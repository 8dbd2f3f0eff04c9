"""Coverage-guided fuzzing of the readers, for as long as you like.

    python tests/fuzz/fuzz_inspect.py [--only=KIND] [--seconds=60] [libFuzzer options] [CORPUS]

KIND is one of binary, zip and metadata; all three if not given. "binary" is ELF files, cubins, fatbins and PTX,
"zip" an archive's structure, "metadata" the texts of a wheel in a sound archive, so that no CRC hides their readers.
It ends after so many seconds of processor time, which is what says how much was looked at on a busy machine, and
tells its inputs and seconds every minute. With atheris (pip install atheris) coverage guides it, and inputs that
reach something new are kept in the folder CORPUS; without, it mutates the samples blindly.

Any exception but an InspectError, any input that takes more than 5 s of processor time (600 s by the clock) and any
that raises the process's peak of memory by more than 128 MB is a find: its bytes are saved as fuzz-find-* or, by
libFuzzer, as crash-*, timeout-* or oom-* in the working directory. Inputs are 64 kB at most, which may unpack to 68 MB.
Save a find as a test in tests/inspect/test_malformed.py. Larger files are tests/inspect/test_floods.py's.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import os
import random
import resource
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.inspect.facts import FileFacts

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
SLOWEST, LONGEST = 5.0, 1 << 16
GROWTH, PROCESS = 128 << 20, 2 << 30
"""Bytes: what one input may add to the process's peak, and what the whole process may have, fuzzer and all."""
SMALL = 24_000
CUT = b"\n====\n"
TEXTS = (
    b"demo-1.0-py3-none-any.whl",
    b"Name: demo\nVersion: 1.0\n",
    b"Tag: py3-none-any\n",
    b"demo/_C.so,sha256=abc,1\n",
)


def one(data: bytes) -> None:
    """Read the bytes as whatever they look like: a zip file, the texts of a wheel, else a binary."""
    from builder.errors import InspectError
    from builder.inspect.facts import FileFacts
    from builder.inspect.objects import HEAD, Asked, inspect_object, is_object

    try:
        if data[:4] == b"PK\3\4":
            read_wheel(data, "demo-1.0-py3-none-any.whl")
        elif data[: len(CUT)] == CUT:
            name, *texts = (data.split(CUT) + [b""] * 4)[1:5]
            read_wheel(pack(tuple(texts)), name.decode(errors="replace"))
        elif is_object("x.ptx", data[:HEAD]):
            found = list(inspect_object("x.ptx", memoryview(data), Asked("all", ("12.1",))))
            show(FileFacts("x.ptx", "", len(data), None, tuple(found)))
    except InspectError:
        pass


def read_wheel(data: bytes, filename: str) -> None:
    """All that `inspect` reads of a wheel but the binaries in it, down to the document."""
    from builder.inspect import wheel
    from builder.inspect.facts import FileFacts
    from builder.inspect.zips import open_archive

    archive = open_archive(memoryview(data), "fuzz")
    facts, record, findings = wheel.describe(archive, filename)
    digests = {member: hashlib.sha256(archive.read(member)).digest() for member in archive.members}
    wrong = [wheel.check_digest(record, member, digest) for member, digest in digests.items()]
    show(FileFacts(filename, "", len(data), facts, (), (*findings, *(finding for finding in wrong if finding))))


def show(facts: FileFacts) -> None:
    """Both documents must come of whatever was read."""
    from builder.inspect.contract import to_json, to_text

    json.dumps(to_json([facts], details=True)).encode()
    to_text([facts])


def pack(texts: tuple[bytes, ...], method: int = zipfile.ZIP_STORED) -> bytes:
    """A sound archive of METADATA, WHEEL and RECORD, and a file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("demo/_C.so", b"\x7fELF")
        for name, text in zip(("METADATA", "WHEEL", "RECORD"), texts, strict=True):
            archive.writestr(f"demo-1.0.dist-info/{name}", text)
    return stream.getvalue()


def seeds(kind: str = "") -> list[bytes]:
    """Where to begin: the small samples, two archives, the texts of a wheel."""
    found = {
        "binary": [data for path in sorted(SAMPLES.iterdir()) if len(data := path.read_bytes()) < SMALL],
        "zip": [pack(TEXTS[1:], method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)],
        "metadata": [CUT + CUT.join(TEXTS)],
    }
    return found[kind] if kind else [data for each in found.values() for data in each]


def mutate(chance: random.Random, data: bytes) -> bytes:
    """Overwrite a few fields, copy pieces about, or cut the end."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(out)) if chance.random() < 0.5 else chance.randrange(min(len(out), 512))
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice((0, 1, (1 << 8 * width) - 1, len(out), chance.getrandbits(8 * width)))
        out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    if chance.random() < 0.1:
        del out[chance.randrange(1, len(out)) :]
    return bytes(out)


STATUS = os.open("/proc/self/status", os.O_RDONLY)


def peak() -> int:
    """The most memory that this program ever had, in bytes; getrusage tells its parent's where that had more."""
    return int(os.pread(STATUS, 4096, 0).partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024


@dataclass
class Budget:
    """Reads inputs until the processor seconds are spent; keeps a find, and tells how far it is."""

    seconds: float
    inputs: int = 0
    told: float = 0
    before: int = field(default_factory=peak)

    def read(self, data: bytes) -> None:
        """Read one input; ends the process when the budget is spent, as libFuzzer has no such end of its own."""
        start = time.process_time()
        try:
            one(data)
            self.before, grown = (now := peak()), now - self.before
            if grown > GROWTH:
                raise MemoryError(f"an input took {grown >> 20} MB")
            if time.process_time() - start > SLOWEST:
                raise TimeoutError(f"an input took more than {SLOWEST} s")
        except BaseException:
            Path(f"fuzz-find-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise
        self.inputs += 1
        self._tell(time.process_time())

    def _tell(self, spent: float) -> None:
        if spent - self.told < 60 and spent < self.seconds:
            return
        self.told = spent
        sys.stdout.write(f"{self.inputs} inputs, {spent:.0f} processor seconds, peak {peak() >> 20} MB, no find\n")
        sys.stdout.flush()
        if spent >= self.seconds:
            os._exit(0)


def blind(budget: Budget, kind: str) -> None:
    """Mutate without guidance."""
    chance, corpus = random.Random(0), seeds(kind)  # noqa: S311  repeatable on purpose
    while True:
        budget.read(mutate(chance, chance.choice(corpus)))


def guided(budget: Budget, arguments: list[str], kind: str) -> None:
    """Let atheris drive; the samples are its first corpus."""
    import atheris

    with atheris.instrument_imports(include=["builder"]):
        import builder.inspect.files
        import builder.inspect.wheel  # noqa: F401  it is imported late otherwise
    with tempfile.TemporaryDirectory() as folder:
        for index, data in enumerate(seeds(kind)):
            (Path(folder) / f"{index:03}").write_bytes(data)
        options = [f"-max_len={LONGEST}", "-timeout=600", f"-rss_limit_mb={PROCESS >> 20}", *arguments, folder]
        atheris.Setup([sys.argv[0], *options], budget.read)
        atheris.Fuzz()


def main() -> None:
    """Pick the fuzzer that is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("binary", "zip", "metadata"), default="")
    parser.add_argument("--seconds", type=float, default=60)
    asked, arguments = parser.parse_known_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (2 * PROCESS, 2 * PROCESS))
    budget = Budget(asked.seconds)
    if importlib.util.find_spec("atheris"):
        guided(budget, arguments, asked.only)
    else:
        blind(budget, asked.only)


if __name__ == "__main__":
    main()
