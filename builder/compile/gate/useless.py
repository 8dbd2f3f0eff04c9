"""Units that the target cannot run: found in the build file, before hours go into them.

A unit names its code as `-gencode arch=compute_X,code=sm_Y`. The rules are those of `builder.inspect.devices`, of which
a test holds these to be a part; that module takes too long to import for something in front of every ninja.
"""

from __future__ import annotations


def useless(codes: dict[str, list[str]], device: str) -> tuple[list[str], dict[str, list[str]]]:
    """Units with no code that runs on `device` (`12.1`), and for the others code that is of no use there.

    `codes` are `sm_121a` for machine code and `compute_120` for PTX, by unit.
    """
    lost = sorted(unit for unit, names in codes.items() if names and not any(runs(name, device) for name in names))
    spare: dict[str, list[str]] = {}
    for unit, names in sorted(codes.items()):
        for name in names:
            if unit not in lost and not runs(name, device):
                spare.setdefault(name, []).append(unit)
    return lost, spare


def runs(code: str, device: str) -> bool:
    """Whether the driver of that device takes it, as it is or by compiling it."""
    kind, _, arch = code.partition("_")
    number = arch.rstrip("af")
    major, minor = (int(part) for part in device.split("."))
    if kind not in {"sm", "compute"} or len(number) < 2 or not number.isdigit():
        return False
    built, mine = (int(number[:-1]), int(number[-1])), (major, minor)
    if arch.endswith("a"):
        return built == mine
    same = built[0] == major and built <= mine
    return built <= mine if kind == "compute" and arch == number else same


def codes_in(block: str) -> list[str]:
    """The code that a build statement's flags ask for."""
    found = []
    for word in block.replace("$\n", " ").split():
        _, asks, code = word.strip('"').partition(",code=")
        if asks and "arch=" in word:
            found += [name for name in code.strip("[]").split(",") if name not in found]
    return found
