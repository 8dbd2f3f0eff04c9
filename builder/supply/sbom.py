"""The bill of materials of a wheel: CycloneDX 1.6 in `.dist-info/sboms/` (PEP 770), a function of the build record.

The document is made by CycloneDX's own library. Three things are ours. It has no timestamp, and a
serial number that follows from its contents, so that a rebuilt wheel has the same bytes; git
objects are properties, because CycloneDX has no such hash; and the formulation (the compiler and
the files of the toolchain lock) is added to the JSON, because the library does not write it yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from builder.supply.materials import APPLIED, Material, materials, pypi

if TYPE_CHECKING:
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, Patch, Pedigree
    from cyclonedx.model.issue import IssueType

SBOM_NAME = "sboms/spark-wheels.cdx.json"
"""The document's name in dist-info."""

_OURS = "spark-wheels"
_MADE_WITH = ("compiler", "tool")
_COMPONENTS = ("vendored", "external", "prebuilt", "part", "file")
_FORGE_ISSUE = re.compile(r"https?://(?P<host>[^/]+)/(?P<project>.+)/(?:-/)?(?:issues|pull|merge_requests)/(?P<id>\d+)")


def sbom(record: Mapping[str, Any]) -> bytes:
    """The document of a build record: equal records, equal bytes."""
    from cyclonedx.model.bom import Bom

    parts: dict[str, list[Component]] = {kind: [] for kind in _COMPONENTS + _MADE_WITH}
    found = materials(record)
    for material in found:
        if material.kind in parts:
            parts[material.kind].append(_component(material))
    for taken in parts["prebuilt"]:
        taken.components = [*parts["part"], *parts["file"]]
    root, direct = _root(record, found), [*parts["vendored"], *parts["external"], *parts["prebuilt"]]
    bom = Bom(metadata=_metadata(record, root), components=direct)
    bom.register_dependency(root, direct)
    document = _written(bom)
    formula = _written(Bom(components=[*parts["compiler"], *parts["tool"]]))
    document["formulation"] = [{"bom-ref": "formulation", "components": formula["components"]}]
    document["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    return f"{json.dumps(document, sort_keys=True, indent=1)}\n".encode()


def facts_of(record: Mapping[str, Any]) -> dict[str, str]:
    """What the document of this record must say: a line for the wheel, each material, and each patch's issues."""
    told = {"wheel": _purl(record)}
    for material in materials(record):
        named = material.kind in (*_COMPONENTS, *_MADE_WITH, "sdist")
        told[material.key] = f"{material.fact} {material.uri}" if named else material.fact
    return told | {f"issues of {p['file']}": " ".join(sorted(p["bugs"])) for p in _applied(record) if p["bugs"]}


def facts_in(data: bytes) -> dict[str, str]:
    """The same, read from a document; raises ValueError when it is not one of ours."""
    try:
        document = json.loads(data)
        if document["bomFormat"] != "CycloneDX":
            raise ValueError("it is no CycloneDX document")
        root = document["metadata"]["component"]
        return {"wheel": root["purl"], **_lineage(root), **dict(_told(document))}
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


# -- writing ----------------------------------------------------------------------------------


def _written(bom: Any) -> dict[str, Any]:  # noqa: ANN401  a Bom; its module is heavy and loaded late
    from cyclonedx.output.json import JsonV1Dot6

    bom.metadata.timestamp = None
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    document.pop("serialNumber")
    return document


def _metadata(record: Mapping[str, Any], root: Component) -> Any:  # noqa: ANN401  as above
    from cyclonedx.model.bom import BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
    from cyclonedx.model.tool import ToolRepository

    tool = Component(name=_OURS, version=str(record["builder"]), type=ComponentType.APPLICATION, bom_ref="tool")
    return BomMetaData(
        component=root,
        tools=ToolRepository(components=[tool]),
        lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
    )


def _root(record: Mapping[str, Any], found: Sequence[Material]) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    package, recipe, target = record["package"], record["recipe"], record["target"]
    trees = {m.kind: m.digests[0][1] for m in found if m.kind in {"tree", "result"}}
    said = {
        "recipe": recipe["name"],
        "recipe-digest": recipe["digest"],
        "cuda-arch": " ".join(target["cuda_arch"]),
        "components": " ".join(package["components"]),
        **trees,
    }
    return Component(
        name=package["name"],
        version=package["version"],
        type=ComponentType.LIBRARY,
        bom_ref=_purl(record),
        purl=_parsed(_purl(record)),
        pedigree=_pedigree(record, found),
        properties=_properties(said),
    )


def _pedigree(record: Mapping[str, Any], found: Sequence[Material]) -> Pedigree:
    from cyclonedx.model import XsUri
    from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree

    package = record["package"]
    sdist = next((m for m in found if m.kind == "sdist"), None)
    name, version = package["source"], package["upstream_version"]
    plain = Component(
        name=name, version=version, type=ComponentType.LIBRARY, bom_ref="upstream", purl=_parsed(pypi(name, version))
    )
    commits = [Commit(uid=m.digests[0][1], url=XsUri(m.uri)) for m in found if m.kind == "commit"]
    return Pedigree(
        ancestors=[_component(sdist, named=name) if sdist else plain],
        commits=commits,
        patches=[_patch(patch) for patch in _applied(record)],
    )


def _patch(patch: Mapping[str, Any]) -> Patch:
    from cyclonedx.model import XsUri
    from cyclonedx.model.component import Diff, Patch, PatchClassification

    theirs = str(patch["origin"]).lower().startswith(("upstream", "backport")) or patch["file"].startswith("pr-")
    return Patch(
        type=PatchClassification.BACKPORT if theirs else PatchClassification.UNOFFICIAL,
        diff=Diff(url=XsUri(f"patches/{patch['file']}#sha256={patch['sha256']}")),
        resolves=[_issue(address, str(patch["description"])) for address in patch["bugs"]],
    )


def _issue(address: str, description: str) -> IssueType:
    from cyclonedx.model import XsUri
    from cyclonedx.model.issue import IssueClassification, IssueType, IssueTypeSource

    known = _FORGE_ISSUE.fullmatch(address)
    return IssueType(
        type=IssueClassification.DEFECT,
        id=f"{known['project']}#{known['id']}" if known else address,
        description=description,
        source=IssueTypeSource(name=known["host"] if known else None, url=XsUri(address)),
    )


def _component(material: Material, named: str = "") -> Component:
    from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
    from cyclonedx.model.component import Component, ComponentType

    purl = material.uri.startswith("pkg:")
    elsewhere = [XsUri(material.uri)] if material.uri and not purl else []
    git = {name: digits for name, digits in material.digests if name != "sha256"}
    return Component(
        name=named or material.name,
        version=material.version or None,
        type=ComponentType.FILE if material.kind == "file" else ComponentType.LIBRARY,
        bom_ref=material.key,
        purl=_parsed(material.uri) if purl else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=d) for name, d in material.digests if name == "sha256"],
        external_references=[ExternalReference(type=ExternalReferenceType.VCS, url=uri) for uri in elsewhere],
        properties=_properties({"material": material.key, **git}),
    )


def _properties(values: Mapping[str, str]) -> list[Property]:
    from cyclonedx.model import Property

    return [Property(name=f"{_OURS}:{name}", value=value) for name, value in sorted(values.items())]


def _parsed(purl: str) -> Any:  # noqa: ANN401  a PackageURL, loaded late
    from packageurl import PackageURL

    return PackageURL.from_string(purl)


def _purl(record: Mapping[str, Any]) -> str:
    return pypi(record["package"]["name"], record["package"]["version"])


def _applied(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [patch for patch in record["patches"] if patch["state"] in APPLIED]


# -- reading ----------------------------------------------------------------------------------


def _lineage(root: Mapping[str, Any]) -> dict[str, str]:
    """Commit, trees, sdist and patches of the wheel itself."""
    own, pedigree = _values(root), root["pedigree"]
    name = pedigree["ancestors"][0]["name"]
    told = {f"commit {name}": f"gitCommit:{commit['uid']}" for commit in pedigree["commits"]}
    told |= {f"{kind} {name}": f"gitTree:{own[kind]}" for kind in ("tree", "result") if kind in own}
    told |= dict(_facts(pedigree["ancestors"]))
    for patch in pedigree.get("patches", ()):
        file, _, digest = patch["diff"]["url"].removeprefix("patches/").partition("#sha256=")
        told[f"patch {file}"] = f"sha256:{digest}"
        if patch.get("resolves"):
            told[f"issues of {file}"] = " ".join(sorted(issue["source"]["url"] for issue in patch["resolves"]))
    return told


def _told(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _facts(document.get("components", ()))
    for formula in document.get("formulation", ()):
        yield from _facts(formula["components"])


def _facts(components: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for component in components:
        own = _values(component)
        if "material" in own:
            digests = [("sha256", each["content"]) for each in component.get("hashes", ()) if each["alg"] == "SHA-256"]
            digests += [(name, own[name]) for name in ("gitCommit", "gitTree") if name in own]
            uri = component.get("purl") or next((each["url"] for each in component.get("externalReferences", ())), "")
            fact = Material(own["material"], "", component.get("version", ""), uri, tuple(digests)).fact
            yield str(own["material"]), f"{fact} {uri}"
        yield from _facts(component.get("components", ()))


def _values(component: Mapping[str, Any]) -> dict[str, str]:
    return {p["name"].removeprefix(f"{_OURS}:"): p["value"] for p in component.get("properties", ())}
