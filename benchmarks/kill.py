"""kill -9 at random moments of a build, then the same build again: the wheels must be those of an undisturbed one.

Run with `python -m benchmarks.kill [trials=10] [cold=2] [seed=N] [recipe=tiny] [store=PATH] [jobs=N]`. The first
`cold` trials begin with an empty compiler cache, so that compilers are killed; the others with a warm one, so
that the moments fall on everything else: sources, patches, toolchain, configure, links, packing, verification.
Only the builder itself is killed: what it leaves running is for the next build to end.
"""

from __future__ import annotations

import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.lab import Lab, laboratory, options_of, say


def main(argv: list[str]) -> None:
    """Ten builds killed once each, resumed, and compared."""
    options = options_of(argv)
    recipe, trials, cold = options.get("recipe", "tiny"), int(options.get("trials", 10)), int(options.get("cold", 2))
    seed = options.get("seed", secrets.token_hex(4))
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    with laboratory(options) as lab:
        checkout = lab.checkout("checkout", modules=1)
        reference = lab.build(checkout, lab.store("reference"), recipe, f"out={lab.folder / 'out'}")
        warm = lab.folder / "reference/sccache"
        say(f"undisturbed, empty cache: {reference.seconds:.1f} s (seed {seed})")
        length = _warm_length(lab, checkout, recipe, warm)
        for trial in range(trials):
            moment = chance.uniform(0.3, reference.seconds if trial < cold else length)
            _trial(lab, checkout, recipe, None if trial < cold else warm, moment, reference.digests, trial)
    say(f"{trials} of {trials} gave the wheels of the undisturbed build")


def _warm_length(lab: Lab, checkout: Path, recipe: str, warm: Path) -> float:
    lab.forget_work()
    built = lab.build(checkout, _store(lab, "length", warm), recipe, f"out={lab.folder / 'out-length'}")
    shutil.rmtree(lab.folder / "length")
    say(f"undisturbed, warm cache: {built.seconds:.1f} s")
    return built.seconds


def _trial(
    lab: Lab, checkout: Path, recipe: str, warm: Path | None, moment: float, expected: dict[str, str], number: int
) -> None:
    lab.forget_work()
    store, out = _store(lab, f"store-{number}", warm), lab.folder / f"out-{number}"
    where = _killed(lab, checkout, store, recipe, out, moment)
    again = lab.build(checkout, store, recipe, f"out={out}")
    same = again.digests == expected
    say(f"killed after {moment:5.1f} s ({where}); resumed in {again.seconds:.1f} s; same wheels: {same}")
    assert same, (again.digests, expected)
    shutil.rmtree(store)


def _store(lab: Lab, name: str, warm: Path | None) -> Path:
    store = lab.store(name)
    if warm is not None:
        shutil.copytree(warm, store / "sccache")
    return store


def _killed(lab: Lab, checkout: Path, store: Path, recipe: str, out: Path, moment: float) -> str:
    """Start a build, kill it; returns the step that it was in."""
    argv = [word for word in lab.command(store, recipe, f"out={out}") if word != "--json"]
    said = lab.folder / "said"
    with said.open("wb") as sink:
        build = subprocess.Popen(argv, cwd=checkout, env=lab.settings(checkout), stdout=sink, stderr=sink)
        time.sleep(moment)
        build.send_signal(signal.SIGKILL)
        build.wait()
    steps = [line for line in said.read_text().splitlines() if line.startswith("==>")]
    return steps[-1].removeprefix("==> ") if steps else "before the first step"


if __name__ == "__main__":
    main(sys.argv[1:])
