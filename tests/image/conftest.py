"""A good small image, and ways to spoil it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from builder.inspect.oci import ContainerFacts, inspect_image
from tests.image.layouts import FOLDER, Node, Picture, layer_tar, write_layout

ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 0xB7)
X86 = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 0x3E)
BASE_DIGEST = "sha256:" + "b" * 64
SITE = "opt/spark/lib/python3.12/site-packages"

GOOD_CONFIG = {
    "User": "10001:10001",
    "Env": ["PATH=/opt/spark/bin:/usr/bin", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas", "LD_LIBRARY_PATH="],
    "Entrypoint": ["/opt/spark/bin/entrypoint"],
    "Labels": {"org.opencontainers.image.base.digest": BASE_DIGEST},
    "Healthcheck": {"Test": ["CMD", "/opt/spark/bin/health"]},
}
GOOD_FILES: dict[str, Node] = {
    "etc": FOLDER,
    "etc/passwd": Node(b"root:x:0:0::/root:/bin/sh\nspark:x:10001:10001::/home/spark:/bin/sh\n"),
    "etc/ld.so.conf": Node(b"include /etc/ld.so.conf.d/*.conf\n"),
    "etc/ld.so.conf.d/libc.conf": Node(b"# multiarch\n/usr/local/lib\n"),
    "opt/spark/bin/entrypoint": Node(b"#!/bin/sh\n", 0o755),
    "opt/spark/bin/ptxas": Node(ELF, 0o755),
    "usr/lib/aarch64-linux-gnu/libc.so.6": Node(ELF, 0o755),
}

Inspect = Callable[..., ContainerFacts]


@pytest.fixture
def image(tmp_path: Path) -> Inspect:
    """Facts of the good image with `files` added or changed (None: left out) and `config` laid over its own."""

    def make(
        files: Mapping[str, Node | None] | None = None, config: Mapping[str, object] | None = None, **more: object
    ) -> ContainerFacts:
        nodes = {path: node for path, node in {**GOOD_FILES, **(files or {})}.items() if node is not None}
        folder = tmp_path / f"layout{len(list(tmp_path.iterdir()))}"
        picture = Picture([layer_tar(nodes)], {**GOOD_CONFIG, **(config or {})}, **more)  # type: ignore[arg-type]
        write_layout(folder, picture)
        return inspect_image(f"oci:{folder}", f"linux/{picture.architecture}")

    return make
