"""The verbs of `python -m builder publish …`, which care for an index that stands.

`add` is known here and done in builder.add, for it verifies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from builder.errors import UsageError
from builder.publish.attest import Signer, attest
from builder.publish.index import Published, open_shelf
from builder.publish.locks import Locks, add_locks, list_locks, lock_names, remove_locks
from builder.publish.upkeep import Changed, Collected, gc, refresh, rollback, unyank, yank
from builder.supply.signature import GITHUB

Options = Mapping[str, str]
Result = Changed | Collected | Locks | Published
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_TAKES = {
    "add": ("recipe", "identity", "issuer", "trust", "store"),
    "rollback": ("to", "reason"),
    "yank": ("reason",),
    "unyank": (),
    "gc": ("keep", "locks"),
    "lock": ("name",),
    "refresh": (),
    "attest": ("identity", "issuer", "trust", "url"),
}
_WITH_FILES = {
    "add": "folders of wheels",
    "yank": "file names of wheels in the index",
    "unyank": "file names of wheels in the index",
    "lock": "add FILE…, remove NAME… or list",
    "attest": "folders of wheels with their bundles",
}


def run_verb(words: Sequence[str], options: Options, index: str) -> tuple[dict[str, Any], str]:
    """Run one verb on the index; its document and its text. Raises UsageError and PublishError."""
    verb, *files = check(words, options)
    return told(verb, index, _CALLS[verb](index, files, options))


def told(verb: str, index: str, result: Result) -> tuple[dict[str, Any], str]:
    """What a verb did, as its document and its text."""
    facts = asdict(result)
    lines = [f"  {name}: {_plain(value)}" for name, value in facts.items()]
    return {"version": 1, **facts, "index": index, "verb": verb}, "\n".join([f"{verb} {index}", *lines])


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value)


def check(words: Sequence[str], options: Options) -> Sequence[str]:
    """The words, when their verb is known and takes these words and options; else UsageError."""
    verb, *files = words or ("",)
    if verb not in _TAKES:
        near = get_close_matches(verb, _TAKES, 1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise UsageError(f"publish has no verb {verb!r}{hint}", expected=", ".join(_TAKES))
    unknown = [name for name in options if name not in _TAKES[verb]]
    if unknown:
        expected = ", ".join(f"{name}=" for name in ("index", *_TAKES[verb]))
        raise UsageError(f"publish {verb} does not take {unknown[0]}=", expected=expected)
    if bool(files) != (verb in _WITH_FILES):
        expected = _WITH_FILES.get(verb, "options only")
        raise UsageError(f"publish {verb} with {'no' if not files else 'these'} words", expected=expected)
    return (verb, *files)


def _rollback(index: str, _files: Sequence[str], options: Options) -> Changed:
    return rollback(
        index, to=_time(options["to"]) if "to" in options else None, reason=options.get("reason", "rolled back")
    )


def _yank(index: str, files: Sequence[str], options: Options) -> Changed:
    return yank(index, files, options.get("reason", ""))


def _unyank(index: str, files: Sequence[str], _options: Options) -> Changed:
    return unyank(index, files)


def _gc(index: str, _files: Sequence[str], options: Options) -> Collected:
    keep = options.get("keep", "")
    if not _NUMBER.fullmatch(keep):
        raise UsageError("keep how many versions?", expected="keep=N, a number from 1", remedy="for example keep=3")
    locks = options.get("locks")
    if locks == "" or (locks is None and not lock_names(open_shelf(index))):
        raise UsageError(
            "this index keeps no lock, and none is named: gc might take what somebody's lock names",
            expected="locks that the index keeps (publish lock add FILE), or locks=FILE,…",
            remedy="locks=none, when there are no locks to respect",
        )
    named = [] if locks in {None, "none"} else str(locks).split(",")
    return gc(index, keep=int(keep), locks=[Path(place) for place in named if place])


def _lock(index: str, words: Sequence[str], options: Options) -> Locks:
    what, *names = words
    if what == "add" and names:
        return add_locks(index, [Path(name) for name in names], options.get("name", ""))
    if options or what not in {"remove", "list"} or bool(names) != (what == "remove"):
        raise UsageError(f"publish lock {' '.join(words)}", expected="add FILE… [name=NAME], remove NAME… or list")
    return remove_locks(index, names) if what == "remove" else list_locks(index)


def _refresh(index: str, _files: Sequence[str], _options: Options) -> Changed:
    return refresh(index)


def _attest(index: str, folders: Sequence[str], options: Options) -> Changed:
    missing = [name for name in ("identity", "url") if name not in options]
    if missing:
        raise UsageError(
            f"attest without {missing[0]}=",
            expected="identity=WHO signed the wheels, url=ADDRESS that serves the index",
            remedy="for example url=https://wheels.example.org",
        )
    trust = options.get("trust")
    signer = Signer(options["identity"], options.get("issuer", GITHUB), Path(trust) if trust else None)
    return attest(index, [Path(folder) for folder in folders], options["url"], signer)


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"to={text} is no time", expected="ISO 8601, such as 2026-11-30T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_CALLS: Mapping[str, Callable[[str, Sequence[str], Options], Result]] = {
    "rollback": _rollback,
    "yank": _yank,
    "unyank": _unyank,
    "gc": _gc,
    "lock": _lock,
    "refresh": _refresh,
    "attest": _attest,
}
