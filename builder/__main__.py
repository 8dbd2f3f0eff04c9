"""Parse, call, translate errors, exit: the only place that exits.

python -m builder VERB [WORD …] [key=value …] [--json]
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import FrameType
from typing import NoReturn

from builder.commands import Outcome, Request
from builder.errors import BuilderError, Interrupted, UsageError
from builder.report import Report

VERBS = ("build", "plan", "patches", "inspect", "verify", "lock")


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the exit code of its outcome or error class."""
    quiet = "--json" in argv
    report = Report(quiet=quiet)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    try:
        outcome = _call([word for word in argv if word != "--json"], report)
    except BuilderError as error:
        return _tell(error, quiet=quiet)
    except KeyboardInterrupt:
        return _tell(Interrupted("stopped", remedy="run the same command again: finished work is kept"), quiet=quiet)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    if quiet:
        print(json.dumps(outcome.document, sort_keys=True, indent=1))
    else:
        print(outcome.text, file=sys.stderr)
    return 0 if outcome.good else 1


def _call(words: Sequence[str], report: Report) -> Outcome:
    if not words or words[0] in {"help", "-h", "--help"}:
        return Outcome({"version": 1, "verbs": list(VERBS)}, _help())
    verb, *rest = words
    if verb not in VERBS:
        close = get_close_matches(verb, VERBS, 1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise UsageError(f"unknown verb {verb!r}{hint}", expected=", ".join(VERBS), remedy="python -m builder help")
    options = dict(word.split("=", 1) for word in rest if "=" in word and not word.startswith("-"))
    flags = [word for word in rest if word.startswith("-")]
    if flags:
        raise UsageError(f"unknown flag {flags[0]}", expected="--json, and options as key=value")
    request = Request(tuple(word for word in rest if "=" not in word), options, report)
    outcome = getattr(importlib.import_module("builder.commands"), verb)(request)
    assert isinstance(outcome, Outcome)  # noqa: S101  every verb returns one
    return outcome


def _help() -> str:
    from builder import commands

    lines = [f"  {verb:9}{(getattr(commands, verb).__doc__ or '').splitlines()[0]}" for verb in VERBS]
    return "\n".join(["python -m builder VERB [key=value …] [--json]", "", *lines])


def _tell(error: BuilderError, *, quiet: bool) -> int:
    """Say the error with the chain of its causes; as a document too when asked for JSON."""
    causes = []
    cause = error.__cause__
    while cause is not None:
        causes.append(str(cause) if isinstance(cause, BuilderError) else f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    if quiet:
        body = {"kind": type(error).__name__, "what": error.what, "where": error.where}
        body |= {"expected": error.expected, "next": error.remedy}
        print(json.dumps({"version": 1, "error": body | {"because": causes}}, sort_keys=True, indent=1))
    said = "".join(f"\n  because: {line.splitlines()[0]}" for line in causes if line)
    print(f"error: {error}{said}", file=sys.stderr)
    return error.exit_code


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(f"stopped by {signal.Signals(number).name}", remedy="run again: finished work is kept")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
