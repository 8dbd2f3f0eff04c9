"""A base for image tests where no registry is reached: Debian's own arm64 packages as an OCI layout.

    python -m tests.image.debian_base FOLDER [PACKAGE …]

apt resolves and fetches, with settings of its own, from the Debian mirror that the machine has; the
packages are unpacked without running anything of theirs. The same packages give the same digest.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.image.layouts import Picture, write_layout

PACKAGES = ("base-files", "ca-certificates", "coreutils", "dash", "libc-bin", "libgomp1", "libstdc++6", "python3")
ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_CONF = """APT::Architecture "arm64";
APT::Architectures {{"arm64";}};
APT::Sandbox::User "root";
Dir::State "{place}/state";
Dir::State::status "{place}/status";
Dir::Cache "{place}/cache";
Dir::Etc::SourceParts "{place}/sources.d";
Dir::Etc::SourceList "{place}/sources.list";
Acquire::Languages "none";
"""


def fetch(place: Path, packages: tuple[str, ...] = PACKAGES) -> list[Path]:
    """The packages and all that they depend on, as .deb files below `place`, which keeps apt's lists."""
    for folder in ("state/lists/partial", "cache/archives/partial", "sources.d"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / "status").write_text("")
    (place / "sources.list").write_text(_mirrors())
    conf = place / "apt.conf"
    conf.write_text(_CONF.format(place=place))
    env = os.environ | {"APT_CONFIG": str(conf), "DEBIAN_FRONTEND": "noninteractive"}
    if not any((place / "state" / "lists").glob("*Packages*")):
        subprocess.run(["apt-get", "update", "-q"], env=env, check=True, stdout=subprocess.DEVNULL)
    get = ["apt-get", "install", "-q", "-y", "--download-only", "--no-install-recommends", *packages]
    subprocess.run(get, env=env, check=True, stdout=subprocess.DEVNULL)
    return sorted((place / "cache" / "archives").glob("*.deb"))


def _mirrors() -> str:
    """The machine's Debian sources, in one-line form and without other vendors' repositories."""
    lines = []
    for path in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        text = path.read_text() if path.is_file() else ""
        if path.suffix == ".sources":
            lines += [line for block in text.split("\n\n") for line in _one_line(block)]
        else:
            lines += [line for line in text.splitlines() if line.startswith("deb ")]
    return "\n".join(line for line in lines if "/debian" in line) + "\n"


def _one_line(block: str) -> list[str]:
    keys = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith("#"))
    if keys.get("Types", "").split()[:1] != ["deb"]:
        return []
    signed = f"[signed-by={keys['Signed-By']}] " if "Signed-By" in keys else ""
    suites, parts = keys.get("Suites", "").split(), keys.get("Components", "main")
    return [f"deb {signed}{uri} {suite} {parts}" for uri in keys.get("URIs", "").split() for suite in suites]


def unpack(debs: list[Path], root: Path) -> None:
    """What the packages hold, and the files that their scripts would have made."""
    for deb in debs:
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
    listed = [subprocess.run(["dpkg-deb", "-f", str(deb)], check=True, capture_output=True).stdout for deb in debs]
    (root / "var" / "lib" / "dpkg").mkdir(parents=True, exist_ok=True)
    status = b"\n".join(fields.rstrip(b"\n") + b"\nStatus: install ok installed\n" for fields in listed)
    (root / "var" / "lib" / "dpkg" / "status").write_bytes(status)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc" / "passwd").write_text(USERS)
    (root / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for folder in ("bin", "usr/bin"):
        if not (root / "bin" / "sh").exists() and (root / folder / "dash").exists():
            (root / "bin" / "sh").symlink_to("dash")
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        subprocess.run(["rm", "-rf", str(root / name)], check=True)


def tar_of(root: Path) -> bytes:
    """The tree as a tar: sorted, root's, with one time, without special bits."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(root.rglob("*")):
            info = tar.gettarinfo(path, path.relative_to(root).as_posix())
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            info.mode = 0o1777 if path.name == "tmp" and path.is_dir() else info.mode & 0o755
            if info.isreg():
                with path.open("rb") as data:
                    tar.addfile(info, data)
            else:
                tar.addfile(info)
    return stream.getvalue()


def make(folder: Path, place: Path, packages: tuple[str, ...] = PACKAGES) -> str:
    """Write the layout; its image's digest. `place` keeps what apt fetched."""
    debs = fetch(place, packages)
    with tempfile.TemporaryDirectory() as work:
        unpack(debs, Path(work))
        plain = tar_of(Path(work))
    return write_layout(folder, Picture([plain], {"Env": ENV}))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.stdout.write(make(target, target.with_name(f"{target.name}.apt"), tuple(sys.argv[2:]) or PACKAGES) + "\n")
