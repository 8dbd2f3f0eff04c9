"""Parse, call, translate errors, exit: the only place that exits.

python -m builder VERB [WORD …] [key=value …] [--json]
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from builder.errors import BuilderError, InternalError, Interrupted, UsageError
from builder.report import Report

if TYPE_CHECKING:
    from builder.commands import Outcome

VERBS = ("build", "plan", "patches", "inspect", "verify", "publish", "image", "lock")

UNHEARD = 141
"""Exit code when whoever read our messages has left before the end, as a shell says it (128 + SIGPIPE)."""

_CALL = "python -m builder"
_CALLED = "SPARK_WHEELS_CALLED"
"""Names the program as its reader calls it, for what is told to do next; the script `dev` sets it."""

_OPTION = re.compile(r"([^\W\d][\w-]*)=(.*)", re.DOTALL)
_KEPT = "finished work is kept"


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the exit code of its outcome or error class."""
    quiet = "--json" in argv
    try:
        return _answer(argv, quiet=quiet)
    except BrokenPipeError:
        _hush(2)
        return UNHEARD


def _answer(argv: Sequence[str], *, quiet: bool) -> int:
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupted)
        outcome = _call([word for word in argv if word != "--json"], Report(quiet=quiet))
    except BuilderError as error:
        return _tell(error, quiet=quiet)
    except KeyboardInterrupt:
        return _tell(Interrupted("stopped", remedy=f"run the same command again: {_KEPT}"), quiet=quiet)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  the last door: nothing may leave as a bare traceback
        return _tell(_named(error, argv), quiet=quiet)
    if quiet:
        _print(outcome.document)
    else:
        print(_as_called(outcome.text), file=sys.stderr)
    return 0 if outcome.good else 1


def _call(words: Sequence[str], report: Report) -> Outcome:
    from builder import commands

    if not words or words[0] in {"help", "-h", "--help"}:
        return commands.Outcome({"version": 1, "verbs": list(VERBS)}, _help())
    verb, *rest = words
    if verb not in VERBS:
        raise UsageError(
            f"unknown verb {verb!r}{_near(verb, VERBS)}", expected=", ".join(VERBS), remedy=f"{_CALL} help"
        )
    if not {"-h", "--help"}.isdisjoint(rest):
        told = _help_of(verb)
        return commands.Outcome({"version": 1, "verb": verb, "help": told}, told)
    request = commands.Request(*_parsed(rest), report)
    outcome: Outcome = getattr(importlib.import_module("builder.commands"), verb)(request)
    return outcome


def _parsed(rest: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Plain words and options; a word such as ./a=b.so is no option. Raises UsageError."""
    words: list[str] = []
    options: dict[str, str] = {}
    for word in rest:
        option = _OPTION.fullmatch(word)
        if word.startswith("-"):
            raise UsageError(
                f"unknown flag {word}{_near(word.partition('=')[0], ['--json'])}",
                expected="--json, and options as key=value",
                remedy=f"write {word.lstrip('-')}" if "=" in word else "",
            )
        if option is None:
            words.append(word)
        elif option[1] in options:
            raise UsageError(f"{option[1]}= is given twice", expected="each option once")
        else:
            options[option[1]] = option[2]
    return tuple(words), options


def _near(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f", did you mean {close[0]}?" if close else ""


def _help() -> str:
    from builder import commands

    lines = [f"  {verb:9}{(getattr(commands, verb).__doc__ or '').splitlines()[0]}" for verb in VERBS]
    return "\n".join([f"{_CALL} VERB [key=value …] [--json]", "", *lines, "", f"{_CALL} VERB --help tells its options"])


def _help_of(verb: str) -> str:
    """What the verb does, and what it takes, by its own refusal of an option that none has."""
    from builder import commands

    call = getattr(commands, verb)
    try:
        call(commands.Request((), {"help": ""}, Report(quiet=True)))
    except UsageError as error:
        return f"{_CALL} {verb}: {call.__doc__}\n  takes: {error.expected}"
    raise AssertionError(verb)


def _as_called(text: str) -> str:
    return text.replace(_CALL, os.environ.get(_CALLED) or _CALL)


def _tell(error: BuilderError, *, quiet: bool) -> int:
    """Say the error with the chain of its causes; as a document too when asked for JSON."""
    from builder.run import masked

    causes = []
    cause = error.__cause__
    while cause is not None:
        causes.append(masked(str(cause) if isinstance(cause, BuilderError) else f"{type(cause).__name__}: {cause}"))
        cause = cause.__cause__
    if quiet:
        body = {"kind": type(error).__name__, "what": error.what, "where": error.where}
        body |= {"expected": error.expected, "next": _as_called(error.remedy)}
        told = {name: masked(text) for name, text in body.items()}
        _print({"version": 1, "error": told | {"because": causes}})
    said = "".join(f"\n  because: {line.splitlines()[0]}" for line in causes if line)
    stopped = f"{error.what}: {error.remedy or _KEPT}"
    text = stopped if isinstance(error, Interrupted) else f"error: {error}{said}"
    print(_as_called(masked(text)), file=sys.stderr)
    return error.exit_code


def _print(document: object) -> None:
    """The one document on stdout; a reader that has seen enough is no error."""
    try:
        print(json.dumps(document, sort_keys=True, indent=1), flush=True)
    except BrokenPipeError:
        _hush(1)


def _hush(descriptor: int) -> None:
    """Let what is still buffered go nowhere, so that closing the stream at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _named(error: Exception, argv: Sequence[str]) -> BuilderError:
    """An exception that no stage foresaw, as an error with a next step."""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "builder":
        return _lacking(error.name)  # maybe what the code below imports

    from builder.store import disk_error

    known = disk_error(error, "") if isinstance(error, OSError) else None
    named = known or _fault(error, argv)
    named.__cause__ = error
    return named


def _lacking(module: str) -> UsageError:
    return UsageError(
        f"this Python lacks what the builder needs: {module}",
        where=sys.executable,
        expected="an environment with all of locks/runtime.txt",
        remedy="call ./dev VERB …, which makes one",
    )


def _fault(error: Exception, argv: Sequence[str]) -> InternalError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    try:
        kept = f"{_keep_traceback(error, argv)}, which holds the command and the traceback"
    except OSError:
        traceback.print_exception(error)
        kept = "the traceback above (there was no place to keep it)"
    return InternalError(
        f"a fault in the builder itself: {type(error).__name__}",
        where=f"{last.filename}:{last.lineno} in {last.name}",
        remedy=f"report it with {kept}; {_KEPT}",
    )


def _keep_traceback(error: Exception, argv: Sequence[str]) -> Path:
    """Write what a report needs into a file of its own, secrets masked; raises OSError when there is no place."""
    from builder import __version__
    from builder.run import echo, masked

    handle, name = tempfile.mkstemp(prefix="spark-wheels-fault-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(f"spark-wheels {__version__}, Python {sys.version}\n")
        stream.write(f"$ {echo(['python', '-m', 'builder', *argv])}\n\n")
        stream.write(masked("".join(traceback.format_exception(error))))
    return Path(name)


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(f"stopped by {signal.Signals(number).name}", remedy=f"run the same command again: {_KEPT}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
