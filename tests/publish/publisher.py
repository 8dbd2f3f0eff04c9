"""A publisher as a process of its own, for tests that kill it: INDEX WHEEL…."""

from __future__ import annotations

import sys
from pathlib import Path

from builder.publish import publish
from tests.publish.wheels import verified

if __name__ == "__main__":
    publish([verified(Path(name)) for name in sys.argv[2:]], Path(sys.argv[1]))
