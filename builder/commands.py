"""Each verb: read its options, call the stages, and give one document and one text."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder import resume
from builder.context import Context
from builder.errors import UsageError
from builder.report import Report, counted, duration, size
from builder.store import Store

if TYPE_CHECKING:
    from builder import pipeline
    from builder.inspect.facts import Level
    from builder.model import Recipe
    from builder.source import ExternalsMode

ROOT = Path(__file__).parent.parent
"""The checkout that holds recipes/ and patches/."""

_JOBS = re.compile(r"[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed command line: plain words, `key=value` options, and the reporter to tell."""

    words: tuple[str, ...]
    options: Mapping[str, str]
    report: Report


@dataclass(frozen=True, slots=True)
class Outcome:
    """One document for machines, one text for people, and whether the answer is good."""

    document: Mapping[str, Any]
    text: str
    good: bool = True


def build(request: Request) -> Outcome:
    """Build a recipe: sources, patches, wheels, verdicts, index."""
    chosen = _options(request, "recipe", "source", "toolchain", "externals", "jobs", "out", "index", "store", "shard")
    _one_of(chosen, "source", ("sdist", "git"))
    _one_of(chosen, "toolchain", ("index", "system"))
    _one_of(chosen, "externals", ("auto", "git", "wheel"))
    _jobs(chosen)
    _required(chosen, "recipe")
    store, out = _store(chosen), _out(chosen)
    if "shard" in chosen:
        return _share(request, chosen, store, out)
    deciding = {name: value for name, value in chosen.items() if name not in {"jobs", "store"}}
    key = resume.fingerprint(ROOT, deciding | {"out": str(out)})
    done = resume.earlier(store, key)
    if done is not None:
        return Outcome({**done, "nothing_to_do": True}, _summary(done, nothing_to_do=True))
    from builder import pipeline

    asked, options, context = _prepared(request, chosen, store, out)
    document = pipeline.build(asked, options, context)
    store.keep_record("build", key, document)
    return Outcome(document, _summary(document))


def _share(request: Request, chosen: Mapping[str, str], store: Store, out: Path) -> Outcome:
    """Compile a share of a build's units into the compiler cache."""
    from builder import pipeline
    from builder.compile import Share

    share = Share.parse(chosen["shard"])
    if "index" in chosen:
        raise UsageError(
            "a share publishes nothing", where="shard= beside index=", remedy="give index= to the build that links"
        )
    asked, options, context = _prepared(request, chosen, store, out)
    document = pipeline.compile_share(asked, options, context, share)
    return Outcome(document, _share_summary(document))


def _prepared(
    request: Request, chosen: Mapping[str, str], store: Store, out: Path
) -> tuple[Recipe, pipeline.Options, Context]:
    """The recipe, the options and the effects of a build; its folders are there and can be written."""
    from builder import pipeline
    from builder.recipe import load

    asked = load(chosen["recipe"], ROOT)
    for folder in (store.root, out / asked.name):
        _writable(folder)
    options = pipeline.Options(
        root=ROOT,
        out=out,
        index=chosen.get("index", str(out / "index")),
        source="git" if chosen.get("source") == "git" else "sdist",
        toolchain="system" if chosen.get("toolchain") == "system" else "index",
        externals=_externals(chosen.get("externals", "auto")),
        jobs=chosen.get("jobs", "auto"),
    )
    return asked, options, _context(store, out / Path(chosen["recipe"]).stem / "logs", request.report)


def plan(request: Request) -> Outcome:
    """Say what a build would do; changes nothing."""
    chosen = _options(request, "recipe", "source", "toolchain", "store", "out", "jobs")
    _one_of(chosen, "source", ("sdist", "git"))
    _one_of(chosen, "toolchain", ("index", "system"))
    _jobs(chosen)
    from builder import plan as planning
    from builder.recipe import load

    recipe, store, out = _required(chosen, "recipe"), _store(chosen), _out(chosen)
    context = _context(store, out / "logs", request.report)
    document = planning.plan(
        load(recipe, ROOT),
        ROOT,
        context,
        jobs=chosen.get("jobs", "auto"),
        source="git" if chosen.get("source") == "git" else "sdist",
        toolchain="system" if chosen.get("toolchain") == "system" else "index",
    )
    deciding = {name: value for name, value in chosen.items() if name not in {"jobs", "store"}}
    key = resume.fingerprint(ROOT, deciding | {"out": str(out)})
    document["nothing_to_do"] = resume.earlier(store, key) is not None
    return Outcome(document, planning.text(document))


def lock(request: Request) -> Outcome:
    """Make a recipe's toolchain lock again from its wishes (NAME.in.toml)."""
    chosen = _options(request, "recipe")
    from builder.fetch import candidates
    from builder.recipe import load, make_lock, read_wants, write_lock

    recipe = load(_required(chosen, "recipe"), ROOT)
    place = ROOT / "recipes" / recipe.toolchain.lock
    files = make_lock(read_wants(place.with_suffix(".in.toml")), candidates)
    write_lock(place, files)
    total = sum(file.size for file in files)
    document = {"version": 1, "lock": str(place), "files": len(files), "bytes": total}
    return Outcome(document, f"{place}: {counted(len(files), 'file')}, {size(total)} for all machines together")


def inspect(request: Request) -> Outcome:
    """Report what wheels, objects, cubins or folders hold."""
    chosen = _options(request, "device", "level", "details", "store", words=True)
    _one_of(chosen, "level", ("arch", "sass", "all"))
    _one_of(chosen, "details", ("yes", "no"))
    from builder.inspect import inspect_path, to_json, to_text
    from builder.inspect.oci import image_json, image_text, is_reference

    if not request.words:
        raise UsageError("inspect what?", expected="wheels, .so, .o, cubins, folders, or oci:PATH", remedy="name one")
    if all(map(is_reference, request.words)):
        if "details" in chosen:
            raise UsageError("an image has no details=", expected="device=…", remedy="leave it out")
        from builder.verify.image import inspect_anywhere

        context = _context(_store(chosen), _out(chosen) / "logs", request.report)
        images = [inspect_anywhere(word, "arm64", context) for word in request.words]
        return Outcome({"version": 1, "images": [image_json(i) for i in images]}, "\n".join(map(image_text, images)))
    devices = tuple(chosen.get("device", "12.1").split(","))
    level, details = chosen.get("level"), chosen.get("details") == "yes"
    depth: Level = "arch" if level == "arch" else "all" if level == "all" else "sass"
    files = [inspect_path(Path(word), level=depth, devices=devices) for word in request.words]
    document = to_json(files, details=details)
    return Outcome(document, "\n".join([to_text(files), *(_hollow(document) if details else ())]))


def _hollow(document: Mapping[str, Any]) -> Iterator[str]:
    """Every kernel that only traps or does nothing, of a document with details."""
    for found in (found for file in document["files"] for found in file["objects"]):
        for kind, words in (("trap_only", "trap-only"), ("empty", "empty")):
            yield from (f"{found['path']}: {words}: {kernel}" for kernel in found[kind])


def verify(request: Request) -> Outcome:
    """Hold wheels against a recipe or a device."""
    from builder.verify import run_verb

    context = _context(_store(request.options), _out(request.options) / "logs", request.report)
    document, text, good = run_verb(list(request.words), dict(request.options), context, ROOT)
    return Outcome(document, text, good)


def publish(request: Request) -> Outcome:
    """Care for an index: add, rollback, yank, unyank, gc, lock, refresh, attest."""
    from builder.publish import run_verb

    chosen = dict(request.options)
    index = chosen.pop("index", str(_out(chosen) / "index"))
    out = _out(chosen)
    chosen.pop("out", None)
    if request.words[:1] == ("add",):
        return _add(request, chosen, index, out)
    document, text = run_verb(request.words, chosen, index)
    return Outcome(document, text)


def _add(request: Request, chosen: Mapping[str, str], index: str, out: Path) -> Outcome:
    """Verify wheels that were built elsewhere, and publish them."""
    from builder.add import add_wheels
    from builder.publish import check, told
    from builder.recipe import load

    _, *places = check(request.words, chosen)
    recipes = [load(name, ROOT) for name in _required(chosen, "recipe").split(",")]
    context = _context(_store(chosen), out / "logs", request.report)
    added = add_wheels([Path(place) for place in places], recipes, chosen, context, index)
    return Outcome(*told("add", index, added))


def image(request: Request) -> Outcome:
    """Make a container image of a recipe's verified wheels; image lock pins what they need."""
    chosen = _options(request, "recipe", "base", "push", "tool", "wheels", "lock", "python", "out", "store", words=True)
    from builder.image import run_verb

    out = _out(chosen)
    context = _context(_store(chosen), out / "logs", request.report)
    document, text = run_verb(request.words, chosen, context, ROOT, out)
    return Outcome(document, text)


def patches(request: Request) -> Outcome:
    """Status, overlap, refresh and radar of a recipe's patch series."""
    from builder.patches import Bench, render, run_verb
    from builder.recipe import load
    from builder.releases import IndexSources

    chosen = dict(request.options)
    context = _context(_store(chosen), _out(chosen) / "logs", request.report)
    for own in ("store", "out"):
        chosen.pop(own, None)
    recipe = load(_required(chosen, "recipe"), ROOT)
    bench = Bench(recipe, context, ROOT, IndexSources(context), recipe.path)
    document = run_verb(list(request.words), chosen, bench)
    return Outcome(document, render(document), bool(document["good"]))


def _options(request: Request, *known: str, words: bool = False) -> Mapping[str, str]:
    unknown = [name for name in request.options if name not in known]
    if unknown:
        close = get_close_matches(unknown[0], known, 1)
        hint = f", did you mean {close[0]}=?" if close else ""
        raise UsageError(f"unknown option {unknown[0]}={hint}", expected=", ".join(f"{name}=…" for name in known))
    if request.words and not words:
        raise UsageError(f"unexpected word {request.words[0]!r}", expected="key=value options only")
    return request.options


def _required(chosen: Mapping[str, str], name: str) -> str:
    if not chosen.get(name):
        raise UsageError(f"which {name}?", expected=f"{name}=NAME", remedy=f"for example {name}=smoke")
    return chosen[name]


def _one_of(chosen: Mapping[str, str], name: str, values: tuple[str, ...]) -> None:
    if name in chosen and chosen[name] not in values:
        listed = " or ".join(f"{name}={value}" for value in values)
        raise UsageError(f"{name}={chosen[name]} is unknown", expected=listed)


def _externals(word: str) -> ExternalsMode:
    return "git" if word == "git" else "wheel" if word == "wheel" else "auto"


def _jobs(chosen: Mapping[str, str]) -> None:
    jobs = chosen.get("jobs", "auto")
    if jobs != "auto" and not _JOBS.fullmatch(jobs):
        raise UsageError(f"jobs={jobs} is no number of jobs", expected="jobs=auto, or a number from 1 to 9999")


def _store(chosen: Mapping[str, str]) -> Store:
    from platformdirs import user_cache_path

    place = chosen.get("store") or os.environ.get("SPARK_WHEELS_STORE") or user_cache_path("spark-wheels")
    return Store(Path(place).expanduser().resolve())


def _out(chosen: Mapping[str, str]) -> Path:
    return Path(chosen.get("out", ROOT / "out")).expanduser().resolve()


def _writable(folder: Path) -> None:
    """Fail now rather than after hours; the last door names the folder and the next step."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def _context(store: Store, logs: Path, report: Report) -> Context:
    return Context(store, logs / time.strftime("%Y%m%d-%H%M%S"), report=report)


def _summary(document: Mapping[str, Any], *, nothing_to_do: bool = False) -> str:
    target = document["target"]
    head = "Nothing to do: all of it stands already." if nothing_to_do else "Built and verified."
    lines = ["", f"{head} {document['recipe']} for {target['platform']} ({', '.join(target['cuda_arch'])})"]
    for wheel in document["wheels"]:
        origin = "" if nothing_to_do else " (from the store)" if wheel["from_store"] else " (built)"
        lines.append(f"  {wheel['file']}{origin}")
        lines.append(f"      {size(wheel['size'])}, sha256 {wheel['sha256']}")
        lines += [f"      {path}: {', '.join(archs) or 'no device code'}" for path, archs in wheel["archs"].items()]
        if wheel["prebuilt"]:
            lines.append(f"      parts of {wheel['prebuilt']['wheel']}: {wheel['prebuilt']['reason']}")
    if not nothing_to_do:
        lines += [f"  {line}" for line in _effort(document)]
    lines += [
        f"  wheels: {document['folder']}",
        f"  index:  {document['index']}",
    ]
    if document["held"]:
        return "\n".join([*lines, *_waiting(document)])
    lines += [
        "Next: serve the index and install from it:",
        f"  python3 -m http.server --directory {document['index']} 8000",
        "  pip install --index-url http://localhost:8000/simple/ --no-deps NAME",
        "What the wheels need beside one another is not there: docs/index.md says how that is installed safely.",
    ]
    return "\n".join(lines)


def _waiting(document: Mapping[str, Any]) -> list[str]:
    return [
        f"      unchanged until it can have {', '.join(document['held'])} too",
        "Next: build those by their recipe, and add the wheels of both at once:",
        f"  publish add {document['folder']} FOLDER recipe={document['recipe']},NAME index={document['index']}",
    ]


def _share_summary(document: Mapping[str, Any]) -> str:
    shard = document["shard"]
    lines = [
        "",
        f"Compiled share {shard['number']} of {shard['count']} of {document['recipe']} into the compiler cache.",
    ]
    for package in document["packages"]:
        if package["of"]:
            longest = ", longest first:" if package["units"] else ""
            lines.append(f"  {package['name']}: {len(package['units'])} of {counted(package['of'], 'unit')}{longest}")
            lines += [f"      {unit}" for unit in package["units"]]
        else:
            lines.append(f"  {package['name']}: nothing to compile")
    lines += [f"  {line}" for line in _effort(document)]
    lines += ["Next: when all shares are done, the same build without shard= links:", f"  recipe={document['recipe']}"]
    return "\n".join(lines)


def _effort(document: Mapping[str, Any]) -> list[str]:
    counts, units = document["counts"], document.get("units") or {}
    fetched = size(counts.get("bytes fetched", 0))
    hits, misses = counts.get("cache hits", 0), counts.get("cache misses", 0)
    asked = hits + misses
    rate = f" ({hits / asked:.0%})" if asked else ""
    taken = duration(document["seconds"]["total"])
    used = f"compiler cache {counted(hits, 'hit')}{rate}, {counted(misses, 'miss', 'misses')}"
    lines = [f"{taken}, {fetched} fetched, {used}", *_cache_trouble(counts)]
    if units:
        peak = f", the largest step {size(units['peak_bytes'])}" if units["peak_bytes"] else ""
        lines.append(f"{counted(units['compiled'], 'unit')} compiled, {units['hits']} from the cache{peak}")
        lines += [f"ended for memory and tried again: {unit}" for unit in units["killed"]]
        lines += [f"what ran when: {document['page']}", f"the same for Perfetto: {document['trace']}"]
    return lines


def _cache_trouble(counts: Mapping[str, int]) -> list[str]:
    unread, lost = counts.get("cache entries unreadable", 0), counts.get("cache writes failed", 0)
    lines = []
    if unread:
        lines.append(f"{counted(unread, 'cache entry', 'cache entries')} could not be read: compiled again")
    if lost:
        lines.append(f"{counted(lost, 'cache write')} failed: compiled again by whoever needs that next")
    return lines
