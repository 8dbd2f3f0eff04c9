"""`python -I -S FOLDER TOOL PROGRAM ARGUMENTS…`, where FOLDER holds this file and the package `gate`."""

import sys

from gate.entry import main  # type: ignore[import-not-found]  # a copy of our package, found beside this file

sys.exit(main(sys.argv[1:]))
