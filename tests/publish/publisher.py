"""A publisher as a process of its own, for tests that kill it: [--each] INDEX WHEEL…."""

from __future__ import annotations

import sys
from pathlib import Path

from builder.errors import BuilderError
from builder.publish import publish
from tests.publish.wheels import verified


def main(argv: list[str]) -> int:
    """All wheels in one call, or with --each one call a wheel; gives the exit code."""
    each = argv[0] == "--each"
    index, *names = argv[each:]
    wheels = [verified(Path(name)) for name in names]
    try:
        for batch in [[wheel] for wheel in wheels] if each else [wheels]:
            publish(batch, index)
    except BuilderError as error:
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
