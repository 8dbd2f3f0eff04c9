"""The patch verbs' documents as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from builder.patches.explain import side_by_side
from builder.report import counted

_SHORT = {"clean": "ok", "contained": "up", "superseded": "sup", "conflict": "X", "malformed": "bad", "needed": "!"}


def render(document: dict[str, Any]) -> str:
    """The text of a document that `run_verb` made."""
    show = {"status": _status, "overlap": _overlap, "radar": _radar, "refresh": _refresh}[document["verb"]]
    return "\n".join(line for package in document["packages"] for line in show(package))


def _status(package: dict[str, Any]) -> Iterator[str]:
    yield f"{package['package']} {package['release']}: {counted(len(package['patches']), 'patch', 'patches')}"
    names = [patch["file"] for patch in package["patches"]] + [item["name"] for item in package["superseded"]]
    width = max((len(name) for name in names), default=0)
    for patch in package["patches"]:
        yield f"  {patch['file']:<{width}}  {patch['label']}".rstrip() + (
            f" (together with {patch['with']})" if patch["with"] else ""
        )
        yield from _details(patch)
    for item in package["superseded"]:
        yield f"  {item['name']:<{width}}  {item['state']}: {item['reason']}"
        yield from (f"      does not hold: {text}" for text in item["failed"])
    for item in package["explanations"]:
        yield from _explanation(item)
    result = package["result_tree"]
    if result and result["message"]:
        yield f"  {result['message']}"
        yield f"      expected {result['expected']}, found {result['found']}"
        yield f"      next: {result['next']}"
    if package["unlisted"]:
        yield f"  not in the recipe: {', '.join(package['unlisted'])}"


def _details(patch: dict[str, Any]) -> Iterator[str]:
    if patch["meaning"]:
        yield f"      {patch['meaning']}"
    for fault in patch["faults"][:20]:
        yield f"      line {fault['line']}: {fault['message']}"
    for text in (*patch["failed"], *patch["notes"]):
        yield f"      {text}"
    if patch["missing_fields"]:
        yield f"      header lacks {', '.join(patch['missing_fields'])}"
    if patch["state"] in {"conflict", "malformed"}:
        for hunk in patch["hunks"]:
            place = f" at line {hunk['line']}" if hunk["line"] else ""
            why = f", {hunk['reason']}" if hunk["reason"] else ""
            yield f"      {hunk['state']:<10} {hunk['path']} {hunk['title']}{place}{why}"


def _explanation(item: dict[str, Any]) -> Iterator[str]:
    yield f"  {item['file']}: {item['path']}, hunk {item['hunk']}: {item['meaning'] or 'damaged'}"
    if item["last_in"]:
        change = f", no longer in {item['changed_in']}" if item["changed_in"] else ""
        yield f"      its lines are in {item['last_in']}{change}"
    if item["moved_to"]:
        yield f"      the file is now {item['moved_to']} ({item['moved_likeness']:.0%} alike)"
    if item["function_at"]:
        yield f"      {item['function']} is now at {', '.join(item['function_at'])}"
    if item["found"]:
        yield f"      expected (left), found at line {item['found_line']} (right), {item['likeness']:.0%} alike:"
        old, new = ([f"{line}\n".encode() for line in item[side]] for side in ("expected", "found"))
        yield from side_by_side(old, new)


def _overlap(package: dict[str, Any]) -> Iterator[str]:
    yield f"{package['package']}: {counted(len(package['overlaps']), 'pair')} of patches in one file"
    words = {"same": "the same lines", "near": "neighbouring lines", "file": "other lines"}
    for item in package["overlaps"]:
        lines = ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in item["lines"])
        where = f" ({lines})" if lines else ""
        order = {"free": "either order does", "fixed": "their order matters"}.get(item["order"], item["order"])
        yield f"  {item['first']} and {item['second']}: {words[item['relation']]} of {item['path']}{where}; {order}"


def _radar(package: dict[str, Any]) -> Iterator[str]:
    yield f"{package['package']}, pinned at {package['pinned']}"
    rows = [*package["patches"], *package["superseded"]]
    width = max((len(row["file"]) for row in rows), default=0)
    columns = [max(len(version), 5) for version in package["releases"]]
    heads = (f"{version:>{size}}" for version, size in zip(package["releases"], columns, strict=True))
    yield f"  {'':<{width}}  {' '.join(heads)}"
    for row in rows:
        cells = (f"{_cell(row['states'][v]):>{n}}" for v, n in zip(package["releases"], columns, strict=True))
        yield f"  {row['file']:<{width}}  {' '.join(cells)}"
    yield "  ok clean · +n/-n offset · up contained upstream · sup superseded · X conflict · bad malformed · ! needed"
    yield from (f"  {patch['file']}: {_fate(patch)}" for patch in package["patches"])
    yield from (f"  {item['file']}: {_standing(item)}" for item in package["superseded"])


def _cell(cell: dict[str, Any]) -> str:
    return cell["label"][7:-1] if cell["state"] == "offset" else _SHORT[cell["state"]]


def _fate(patch: dict[str, Any]) -> str:
    parts = [
        f"fits {_span(patch['fits'])}" if patch["fits"] else "fits no release",
        f"first breaks at {patch['breaks_at']}" if patch["breaks_at"] else "",
        f"contained from {patch['contained_from']}" if patch["contained_from"] else "",
        f"superseded from {patch['superseded_from']}" if patch["superseded_from"] else "",
    ]
    return ", ".join(part for part in parts if part)


def _standing(item: dict[str, Any]) -> str:
    """Where a change that nobody carries is superseded, and where it would be needed."""
    found: dict[str, list[str]] = {"superseded": [], "needed": []}
    for version, cell in item["states"].items():
        found[cell["state"]].append(version)
    return ", ".join(f"{word} in {_span(versions)}" for word, versions in found.items() if versions)


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]} ({len(versions)} releases)"


def _refresh(package: dict[str, Any]) -> Iterator[str]:
    yield f"{package['package']} {package['from']} to {package['to']}"
    for patch in package["patches"]:
        yield f"  {patch['file']}: {patch['outcome']}"
    if package["stopped_at"]:
        yield f"  {package['stopped_at']}: {package['why']}"
        yield from (f"      {path}" for path in package["conflicts"])
        yield f"  mend it in {package['work']}, then `refresh continue`; or `refresh skip`, `refresh abort`"
    elif package["why"]:
        yield f"  {package['why']}"
    if package["result_tree"]:
        yield f"  patch files and recipe are written; the result is tree {package['result_tree']}"
    yield from (f"  note: {note}" for note in package["notes"])
