"""What an image says of itself: labels and annotations, and its bill of materials."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from uuid import NAMESPACE_URL, uuid5

from builder import __version__
from builder.image.base import Base
from builder.image.places import CREATED
from builder.model import LockedFile, Recipe, VerifiedWheel
from builder.verify.image import BASE_DIGEST, BASE_NAME, LABEL

_OCI = "org.opencontainers.image"


def labels(recipe: Recipe, base: Base, wheels: Sequence[VerifiedWheel]) -> dict[str, str]:
    """Recipe, commits, patches, wheels and base, each with its digest; the same stand as annotations."""
    patches = {
        name: digest
        for package in recipe.packages
        for name, digest in zip(package.patches, package.patch_digests, strict=True)
    }
    own = {
        "recipe": recipe.name,
        "recipe.digest": recipe.digest,
        "recipe.revision": str(recipe.revision),
        "builder": __version__,
        "cuda": recipe.toolchain.cuda,
        "cuda.arch": ",".join(str(arch) for arch in recipe.target.cuda_arch),
        "commits": _json({p.name: p.commit for p in recipe.packages if not p.source}),
        "patches": _json(patches),
        "wheels": _json({each.wheel.path.name: each.wheel.sha256 for each in wheels}),
    }
    standard = {
        f"{_OCI}.title": recipe.name,
        f"{_OCI}.version": _version(wheels),
        f"{_OCI}.revision": recipe.digest,
        f"{_OCI}.created": CREATED,
        BASE_NAME: base.name,
        BASE_DIGEST: base.digest,
    }
    return dict(sorted({**standard, **{f"{LABEL}.{key}": value for key, value in own.items()}}.items()))


def _version(wheels: Sequence[VerifiedWheel]) -> str:
    """The main wheel's version: vLLM's where there is one, else the last one's. `+` is no letter of a tag."""
    named = {each.wheel.name.replace("_", "-"): each.wheel.version for each in wheels}
    return named.get("vllm") or next(reversed(named.values()))


def sbom(recipe: Recipe, base: Base, wheels: Sequence[VerifiedWheel], files: Iterable[LockedFile]) -> bytes:
    """The image's bill of materials: base, our wheels (each with one of its own inside), and every locked wheel."""
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    def library(name: str, version: str, sha256: str, filename: str, **more: str) -> Component:
        return Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=filename,
            purl=PackageURL("pypi", name=name, version=version, qualifiers={"file_name": filename}),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
            properties=[Property(name=f"{LABEL}:{key}", value=value) for key, value in sorted(more.items())],
        )

    stands_on = Component(
        name=base.name, version=base.digest, type=ComponentType.CONTAINER, bom_ref="base", description="the base image"
    )
    ours = [
        library(w.name.replace("_", "-"), w.version, w.sha256, w.path.name, recipe=recipe.name, verdict="good")
        for w in (each.wheel for each in wheels)
    ]
    others = [library(file.project, file.version, file.sha256, file.filename) for file in files]
    root = Component(name=recipe.name, version=_version(wheels), type=ComponentType.CONTAINER, bom_ref="image")
    bom = Bom(metadata=BomMetaData(component=root), components=[stands_on, *ours, *others])
    bom.register_dependency(root, [stands_on, *ours, *others])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp", None)
    document.pop("serialNumber", None)
    document["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    return f"{json.dumps(document, sort_keys=True, indent=1)}\n".encode()


def _json(value: Mapping[str, str]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
