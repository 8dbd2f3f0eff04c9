"""What an image says of itself: labels and annotations, and its bill of materials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from packaging.utils import canonicalize_name

from builder import __version__
from builder.image.base import Base
from builder.image.debs import DebPackage, packages_of
from builder.inspect.oci import Root
from builder.model import LockedFile, Recipe, VerifiedWheel
from builder.verify.image import BASE_DIGEST, BASE_NAME, LABEL, own_labels
from builder.verify.image.places import CREATED, PTXAS

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

_OCI = "org.opencontainers.image"


def labels(recipe: Recipe, base: Base, wheels: Sequence[VerifiedWheel]) -> dict[str, str]:
    """Recipe, commits, patches, wheels and base, each with its digest; the same stand as annotations."""
    own = own_labels(recipe, {each.wheel.path.name: each.wheel.sha256 for each in wheels})
    standard = {
        f"{_OCI}.title": recipe.name,
        f"{_OCI}.version": _version(wheels),
        f"{_OCI}.revision": recipe.digest,
        f"{_OCI}.created": CREATED,
        BASE_NAME: base.name,
        BASE_DIGEST: base.digest,
    }
    return dict(sorted({**standard, **own, f"{LABEL}.builder": __version__}.items()))


def _version(wheels: Sequence[VerifiedWheel]) -> str:
    """The main wheel's version: vLLM's where there is one, else the last one's. `+` is no letter of a tag."""
    named: dict[str, str] = {canonicalize_name(each.wheel.name): each.wheel.version for each in wheels}
    return named.get("vllm") or next(reversed(named.values()))


@dataclass(frozen=True, slots=True)
class Bill:
    """What a bill of materials lists. Of `compiler` the assembler alone is in the image, unless `files` have it too."""

    recipe: Recipe
    base: Base
    wheels: Sequence[VerifiedWheel]
    files: Sequence[LockedFile]
    compiler: LockedFile


def sbom(bill: Bill, root: Root | None = None) -> bytes:
    """The image's bill of materials: base, our wheels (each with one of its own inside), and every locked wheel.

    With `root`, the finished image's, also the packages of its distribution, which are known only then.
    """
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType

    top = Component(name=bill.recipe.name, version=_version(bill.wheels), type=ComponentType.CONTAINER, bom_ref="image")
    parts = [*_parts(bill), *(_package(package) for package in packages_of(root or Root()))]
    bom = Bom(metadata=BomMetaData(component=top), components=parts)
    bom.register_dependency(top, parts)
    return _written(bom)


def _written(bom: Bom) -> bytes:
    """Without the time, and with a serial number that follows from what it says."""
    from cyclonedx.output.json import JsonV1Dot6

    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp", None)
    document.pop("serialNumber", None)
    document["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    return f"{json.dumps(document, sort_keys=True, indent=1)}\n".encode()


def _parts(bill: Bill) -> Iterator[Component]:
    from cyclonedx.model.component import Component, ComponentType

    base = bill.base
    yield Component(
        name=base.name, version=base.digest, type=ComponentType.CONTAINER, bom_ref="base", description="the base image"
    )
    for wheel in (each.wheel for each in bill.wheels):
        own = {"recipe": bill.recipe.name, "verdict": "good"}
        yield _library(canonicalize_name(wheel.name), wheel.version, wheel.sha256, wheel.path.name, own)
    for file in bill.files:
        yield _library(file.project, file.version, file.sha256, file.filename, {})
    if bill.compiler.filename not in {file.filename for file in bill.files}:
        file = bill.compiler
        yield _library(file.project, file.version, file.sha256, file.filename, {"only": PTXAS})


def _library(name: str, version: str, sha256: str, filename: str, own: Mapping[str, str]) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=filename,
        description=f"of this wheel {own['only']} alone is in the image" if "only" in own else None,
        purl=PackageURL("pypi", name=name, version=version, qualifiers={"file_name": filename}),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
        properties=[Property(name=f"{LABEL}:{key}", value=value) for key, value in sorted(own.items())],
    )


def _package(package: DebPackage) -> Component:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    more = {"arch": package.architecture, "distro": package.distribution}
    if package.source and package.source != package.name:
        more["upstream"] = package.source
    purl = PackageURL("deb", package.vendor, package.name, package.version, {key: v for key, v in more.items() if v})
    return Component(
        name=package.name, version=package.version, type=ComponentType.LIBRARY, bom_ref=purl.to_string(), purl=purl
    )
