"""A base without the recipe's packages, and in it an archive of one package: what the RUN step installs from."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.image import debian_base
from tests.image.layouts import Picture, write_layout

PACKAGES = (*debian_base.PACKAGES, "apt", "diffutils", "sed", "tar")
NAME = "spark-test-tool"
_CONTROL = f"""Package: {NAME}
Version: 1.0-1
Architecture: arm64
Maintainer: nobody <nobody@example.org>
Description: brings a program, and adds a user when it is installed
"""
_POSTINST = "#!/bin/sh\nset -e\necho 'tool:x:777:777::/nonexistent:/usr/sbin/nologin' >> /etc/passwd\n"


def make(folder: Path, place: Path) -> str:
    """Write the layout; its image's digest. `place` keeps what apt fetched."""
    debs = debian_base.fetch(place, PACKAGES)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        debian_base.unpack(debs, root)
        _archive(root / "srv" / "apt")
        (root / "etc" / "apt" / "sources.list").write_text("deb [trusted=yes] file:/srv/apt ./\n")
        (root / "etc" / "apt" / "apt.conf").write_text('APT::Sandbox::User "root";\n')
        (root / "var" / "lib" / "dpkg" / "info").mkdir(parents=True, exist_ok=True)
        plain = debian_base.tar_of(root)
    return write_layout(folder, Picture([plain], {"Env": debian_base.ENV}))


def _archive(folder: Path) -> None:
    """One package, and the list of them that apt reads."""
    tree = folder / "tree"
    for path, text, mode in (
        ("DEBIAN/control", _CONTROL, 0o644),
        ("DEBIAN/postinst", _POSTINST, 0o755),
        ("usr/bin/spark-test-tool", "#!/bin/sh\necho installed\n", 0o755),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(mode)
    deb = folder / f"{NAME}_1.0-1_arm64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, deb], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-r", tree], check=True)
    sha256 = hashlib.sha256(deb.read_bytes()).hexdigest()
    said = f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {sha256}\n"
    (folder / "Packages").write_text(f"{_CONTROL}{said}\n")
