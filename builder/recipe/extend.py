"""`extends`: a child changes its parent key by key, and narrows it only where it says so.

Tables merge key by key and an array of the child replaces the parent's. `[[package]]` entries
match by name: the child's keys change the parent's entry, a new name is added at the end. What
is built stays the parent's whole list unless the child says `packages = ["…"]`: then those
alone, in that order. A parent is a whole recipe by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

Raw = dict[str, object]
_OWN = ("extends", "packages")


def merged(parent: Mapping[str, object], child: Mapping[str, object]) -> Raw:
    """The child laid over its resolved parent, narrowed; the parent's `extends` and `packages` are spent."""
    base = {key: value for key, value in parent.items() if key not in _OWN}
    whole = _over(base, {key: value for key, value in child.items() if key != "package"})
    if "package" in child:
        whole["package"] = _packages(parent.get("package"), child["package"])
    return whole


def narrowed(raw: Mapping[str, object]) -> Raw:
    """Only the entries that `packages` names, in its order, and what [verify] asks of them.

    Unknown names are left for the checks.
    """
    wanted, entries = raw.get("packages"), raw.get("package")
    if not isinstance(wanted, list) or not isinstance(entries, list):
        return dict(raw)
    kept = [entry for name in wanted for entry in entries if isinstance(entry, dict) and entry.get("name") == name]
    gone = [entry.get("name") for entry in entries if isinstance(entry, dict) and entry.get("name") not in wanted]
    return {**raw, "package": kept} | ({"verify": _asked(raw["verify"], gone)} if "verify" in raw else {})


def _asked(verify: object, gone: list[object]) -> object:
    """[verify] without the rules for packages that are not built."""
    if not isinstance(verify, dict):
        return verify
    return {key: _without(value, gone) for key, value in verify.items()}


def _without(value: object, gone: list[object]) -> object:
    if isinstance(value, list):
        return [rule for rule in value if not (isinstance(rule, dict) and rule.get("package") in gone)]
    return {name: limit for name, limit in value.items() if name not in gone} if isinstance(value, dict) else value


def _over(parent: Mapping[str, object], child: Mapping[str, object]) -> Raw:
    whole = dict(parent)
    for key, value in child.items():
        before = whole.get(key)
        whole[key] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return whole


def _packages(parent: object, child: object) -> object:
    """Entries by name; anything that is not a list of tables is left as it stands, to be reported."""
    if not (_are_tables(parent) and _are_tables(child)):
        return child
    changes = {entry.get("name"): entry for entry in child}  # type: ignore[attr-defined]  # checked above
    known = {entry.get("name") for entry in parent}  # type: ignore[attr-defined]
    kept = [_over(entry, changes.get(entry.get("name"), {})) for entry in parent]  # type: ignore[attr-defined]
    return kept + [entry for entry in child if entry.get("name") not in known]  # type: ignore[attr-defined]


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in value
    )
