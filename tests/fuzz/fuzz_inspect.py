"""Coverage-guided fuzzing of the readers, for as long as you like.

    python tests/fuzz/fuzz_inspect.py [-max_total_time=3600] [libFuzzer options] [CORPUS…]

With atheris (pip install atheris) coverage guides it. Without, it mutates the samples blindly for the seconds
of -max_total_time (60 if not given). Any exception but an InspectError, and any input that takes longer than 5 s or
2 GB, is a find; save it as a test in tests/inspect/test_malformed.py.
"""

from __future__ import annotations

import importlib.util
import random
import re
import resource
import sys
import tempfile
import time
import zipfile
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
SLOWEST, LARGEST = 5.0, 2 << 30


def one(data: bytes) -> None:
    """Read the bytes as whatever they look like: a zip file as a wheel, else a binary."""
    from builder.errors import InspectError
    from builder.inspect import wheel
    from builder.inspect.objects import HEAD, Asked, inspect_object, is_object
    from builder.inspect.zips import open_archive

    try:
        if data[:4] == b"PK\3\4":
            archive = open_archive(memoryview(data), "fuzz")
            _, record, _ = wheel.describe(archive, "demo-1.0-py3-none-any.whl")
            for member in archive.members:
                wheel.check_digest(record, member, archive.read(member))
        elif is_object("x.ptx", data[:HEAD]):
            list(inspect_object("x.ptx", memoryview(data), Asked("all", ("12.1",))))
    except InspectError:
        pass


def seeds() -> list[bytes]:
    """The samples, and a wheel of two of them."""
    files = [path.read_bytes() for path in sorted(SAMPLES.iterdir())]
    with tempfile.TemporaryFile() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("demo/_C.so", files[0])
            archive.writestr("demo-1.0.dist-info/METADATA", "Name: demo\nVersion: 1.0\n")
            archive.writestr("demo-1.0.dist-info/WHEEL", "Tag: py3-none-any\n")
            archive.writestr("demo-1.0.dist-info/RECORD", "demo/_C.so,sha256=abc,1\n")
        stream.seek(0)
        return [*files, stream.read()]


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


def blind(seconds: float) -> None:
    """Mutate without guidance, keeping the first find in a file."""
    chance, corpus, count = random.Random(0), seeds(), 0  # noqa: S311  repeatable on purpose
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data, start = mutate(chance, chance.choice(corpus)), time.monotonic()
        try:
            one(data)
        except Exception:
            Path("fuzz-find.bin").write_bytes(data)
            raise
        if time.monotonic() - start > SLOWEST:
            Path("fuzz-find.bin").write_bytes(data)
            raise SystemExit("an input took too long: fuzz-find.bin")
        count += 1
    sys.stdout.write(f"{count} inputs, no find\n")


def guided(arguments: list[str]) -> None:
    """Let atheris drive; the samples are its first corpus."""
    import atheris

    with atheris.instrument_imports(include=["builder"]):
        import builder.inspect  # noqa: F401
    with tempfile.TemporaryDirectory() as folder:
        for index, data in enumerate(seeds()):
            (Path(folder) / f"{index:03}").write_bytes(data)
        options = ["-max_len=65536", "-timeout=5", "-rss_limit_mb=2048", *arguments, folder]
        atheris.Setup([sys.argv[0], *options], one)
        atheris.Fuzz()


def main() -> None:
    """Pick the fuzzer that is there."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if importlib.util.find_spec("atheris"):
        guided(sys.argv[1:])
        return
    resource.setrlimit(resource.RLIMIT_AS, (2 * LARGEST, 2 * LARGEST))
    limit = next((m[1] for a in sys.argv[1:] if (m := re.fullmatch(r"-max_total_time=(\d+)", a))), "60")
    blind(float(limit))


if __name__ == "__main__":
    main()
