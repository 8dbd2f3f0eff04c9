"""A small image for arm64, really built, pushed, pulled and run: with the tools, Debian's packages, and emulation."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_socket

from builder.context import Context
from builder.errors import FetchError, NegativeVerdict, PublishError, RecipeError, RunError
from builder.fetch import fetch
from builder.image import verbs
from builder.image.base import Base, bring
from builder.image.container import steps
from builder.image.make import Order, make_image
from builder.image.push import push_image
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.model import ImagePin, LockedBase, LockedFile, VerifiedWheel
from builder.recipe import load, lock_text, locked, read_base
from builder.run import Completed, run
from builder.store import Store
from builder.verify.image import Standing, inspect_anywhere, pinned, remote_base, run_image_verb, standing
from builder.verify.image.places import LAYERS, USER_LINE, Python
from tests.image import apt_base, debian_base
from tests.image.layouts import Node, Picture, dump, layer_tar, put, write_layout
from tests.publish.wheels import build_wheel, verified

ROOT = Path(__file__).parents[2]
EMULATE = Path(__file__).with_name("emulate.sh")
EMULATED = Path(__file__).with_name("emulated.sh")
PYTHON = Python("3.11")  # Debian 12's
ANY = "py3-none-any"

pytestmark = [pytest.mark.image, pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("tools")]


@pytest.fixture(scope="session")
def tools() -> None:
    needed = ("buildah", "skopeo", "docker-registry", "qemu-aarch64-static", "apt-get", "dpkg-deb", "unshare")
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not here: {', '.join(missing)}: apt-get install buildah skopeo docker-registry qemu-user-static")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Context:
    place = tmp_path_factory.mktemp("world")
    return Context(Store(place / "store"), place / "logs")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, world: Context, tools: None) -> Base:
    del tools
    place = tmp_path_factory.mktemp("debian")
    packages = Path(os.environ.get("SPARK_WHEELS_DEBIAN", place / "apt"))  # kept between runs where it is set
    digest = debian_base.make(place / "base", packages)
    assert digest == debian_base.make(place / "again", packages), "the same packages give the same base"
    return bring(f"oci:{place / 'base'}", "arm64", world)


def wheel(folder: Path, name: str, text: str) -> VerifiedWheel:
    """A wheel of ours: what is compiled in it is its payload, and `text` its one line of Python."""
    path = build_wheel(folder, name, "1.0", ANY, payload=bytes(2_000_000), requires_python=">=3.9")
    return verified(with_line(path, f"{name}/__init__.py", text))


def stand_in(folder: Path) -> Path:
    """A wheel called vllm with a command line, where the entrypoint looks for one."""
    path = build_wheel(folder, "vllm", "0.20.0", ANY, payload=b"v", requires_python=">=3.9")
    lines = {
        "vllm/entrypoints/__init__.py": b"",
        "vllm/entrypoints/cli/__init__.py": b"",
        "vllm/entrypoints/cli/main.py": b"import json, sys\nprint(json.dumps(sys.argv[1:]))\n",
    }
    for member, data in lines.items():
        with_file(path, member, data)
    return path


def with_file(path: Path, member: str, data: bytes) -> None:
    """Add a file to a wheel and to its RECORD."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in files if name.endswith("RECORD"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    files[record] = f"{member},sha256={digest},{len(data)}\n".encode() + files[record]
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in {**files, member: data}.items():
            archive.writestr(zipfile.ZipInfo(name), body)


def with_line(path: Path, member: str, text: str) -> Path:
    def digest(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")

    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    old, new = files[member], text.encode()
    record = next(name for name in files if name.endswith("RECORD"))
    line = f"{member},sha256=".encode()
    files[record] = files[record].replace(
        line + digest(old) + f",{len(old)}".encode(), line + digest(new) + f",{len(new)}".encode()
    )
    files[member] = new
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


@pytest.fixture(scope="session")
def order(tmp_path_factory: pytest.TempPathFactory, base: Base, world: Context) -> Order:
    place = tmp_path_factory.mktemp("order")
    recipe = load("aeon7", ROOT)
    assert recipe.image is not None
    pytest_socket.enable_socket()  # fixtures of a session are made before a test's own marker is heard
    pytest_socket._remove_restrictions()
    nvcc = next(f for f in locked(recipe, ROOT) if f.project == "nvidia-cuda-nvcc" and "aarch64" in f.filename)
    fetch(nvcc, world.store, world.report)
    other = build_wheel(place, "other", "2.0", ANY, payload=b"o", requires_python=">=3.9")
    size = other.stat().st_size
    file = LockedFile("other", "2.0", other.name, world.store.put_file(other).name, size, ("image-aarch64",))
    ours = (wheel(place / "w", "demo", "__version__ = '1.0'\n"), verified(stand_in(place / "w")))
    return Order(recipe, recipe.image, PYTHON, ours, nvcc, (file,), base, "arm64", place / "out")


@pytest.fixture(scope="session")
def image(order: Order, world: Context) -> ContainerFacts:
    return make_image(order, "buildah", world)


def test_built_twice_it_has_the_same_digest(
    image: ContainerFacts, order: Order, world: Context, tmp_path: Path
) -> None:
    time.sleep(1.1)  # another second, so that a clock would show
    again = make_image(replace(order, out=tmp_path / "again"), "buildah", world)
    assert again.digest == image.digest
    assert [layer.digest for layer in again.layers] == [layer.digest for layer in image.layers]


def test_a_line_of_python_changes_one_small_layer(
    image: ContainerFacts, order: Order, world: Context, tmp_path: Path
) -> None:
    patched = (wheel(tmp_path / "w", "demo", "__version__ = '1.0'\npatched = True\n"), *order.wheels[1:])
    other = make_image(replace(order, wheels=patched, out=tmp_path / "out"), "buildah", world)
    fresh = [layer for layer in other.layers if layer.digest not in {each.digest for each in image.layers}]
    assert [layer is other.layers[-1] for layer in fresh] == [True]
    assert fresh[0].size < 20_000


def test_it_says_what_it_is_made_of(image: ContainerFacts, order: Order) -> None:
    assert image.user == "10001:10001"
    assert image.labels == image.annotations
    own = {key.removeprefix("io.github.spark-wheels."): value for key, value in image.labels.items()}
    assert own["recipe"] == "aeon7"
    assert json.loads(own["commits"])["vllm"] == order.recipe.package("vllm").commit
    assert set(json.loads(own["patches"])) >= set(order.recipe.package("vllm").patches)
    assert json.loads(own["wheels"]) == {each.wheel.path.name: each.wheel.sha256 for each in order.wheels}
    assert image.labels["org.opencontainers.image.base.digest"] == order.base.digest
    assert image.healthcheck == ("CMD", "/opt/spark/bin/health")


def test_its_bills_of_materials(image: ContainerFacts, order: Order, running: Path) -> None:
    bill = json.loads((running / "opt/spark/share/sbom.cdx.json").read_text())
    parts = {part["name"]: part for part in bill["components"]}
    assert set(parts) == {"demo", "vllm", "nvidia-cuda-nvcc", "other", order.base.name}
    assert parts["nvidia-cuda-nvcc"]["description"] == "of this wheel /opt/spark/bin/ptxas alone is in the image"
    attached = attached_bill(image)
    debs = {part["name"]: part["purl"] for part in attached["components"] if part.get("purl", "").startswith("pkg:deb")}
    assert debs["libstdc++6"].startswith("pkg:deb/debian/libstdc%2B%2B6@")
    assert "arch=arm64&distro=debian-12&upstream=gcc-12" in debs["libstdc++6"]
    assert set(parts) < {part["name"] for part in attached["components"]}
    validate(bill)
    validate(attached)


def attached_bill(image: ContainerFacts) -> dict[str, Any]:
    folder = Path(image.reference.split(":")[1])

    def load_blob(descriptor: Mapping[str, str]) -> dict[str, Any]:
        path = folder / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
        return dict(json.loads(path.read_text()))

    artefact = load_blob(json.loads((folder / "index.json").read_text())["manifests"][1])
    assert artefact["subject"]["digest"] == image.digest
    return load_blob(artefact["layers"][0])


def test_the_history_is_the_bases_and_a_line_a_layer(image: ContainerFacts, order: Order) -> None:
    assert image.history[: len(order.base.facts.history)] == order.base.facts.history
    made = [step["created_by"] for step in image.history if not step.get("empty_layer")]
    assert made == ["test", *steps(order.pin, with_packages=False)]


def validate(bill: Mapping[str, object]) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


def test_a_bad_base_stops_the_build(order: Order, world: Context, tmp_path: Path) -> None:
    write_layout(tmp_path / "bad", Picture([layer_tar({"usr/lib/libcuda.so.1": Node(b"stub")})], {"Env": ["A=b"]}))
    bad = replace(order, base=bring(f"oci:{tmp_path / 'bad'}", "arm64", world), out=tmp_path / "out")
    with pytest.raises(NegativeVerdict, match="image-libcuda"):
        make_image(bad, "buildah", world)
    assert not (tmp_path / "out").exists()


# -- a registry ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registry:
    name: str


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {tmp_path / 'blobs'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    server = subprocess.Popen(["docker-registry", "serve", str(config)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield Registry(f"127.0.0.1:{port}/team/aeon7")
    finally:
        server.terminate()
        server.wait(10)


def test_pushed_pulled_by_digest_and_looked_at(
    image: ContainerFacts, registry: Registry, world: Context, tmp_path: Path
) -> None:
    pushed = push_image(image, f"{registry.name}:v1", world)
    assert pushed == f"{registry.name}@{image.digest}"
    skopeo = ["skopeo", "copy", "--src-tls-verify=false", "--preserve-digests", f"docker://{pushed}"]
    subprocess.run([*skopeo, f"oci:{tmp_path / 'pulled'}"], check=True, capture_output=True)
    pulled = inspect_image(f"oci:{tmp_path / 'pulled'}")
    assert pulled.digest == image.digest
    assert (pulled.labels, pulled.user, pulled.healthcheck) == (image.labels, image.user, image.healthcheck)
    look = ["skopeo", "inspect", "--tls-verify=false", "--config", f"docker://{pushed}"]
    config = json.loads(subprocess.run(look, check=True, capture_output=True).stdout)
    assert (config["architecture"], config["config"]["Entrypoint"]) == ("arm64", ["/opt/spark/bin/entrypoint"])
    attached = f"docker://{registry.name}:{image.digest.replace(':', '-')}.sbom"
    look = ["skopeo", "inspect", "--tls-verify=false", "--raw", attached]
    artefact = json.loads(subprocess.run(look, check=True, capture_output=True).stdout)
    assert artefact["subject"]["digest"] == image.digest
    assert artefact["artifactType"] == "application/vnd.cyclonedx+json"


def test_an_image_in_a_registry_is_judged_where_it_is(
    image: ContainerFacts, registry: Registry, world: Context, tmp_path: Path
) -> None:
    pushed = push_image(image, f"{registry.name}:v1", world)
    for verb in ("verify", "inspect"):
        call = [sys.executable, "-m", "builder", verb, f"docker://{pushed}", f"store={tmp_path}", "--json"]
        done = subprocess.run(call, check=True, capture_output=True, cwd=ROOT)
        assert json.loads(done.stdout)["images"][0]["digest"] == image.digest
    found = remote_base(*pinned(pushed), "arm64", world)
    assert found.layers == tuple(layer.diff_id for layer in image.layers)
    assert dict(text.partition("=")[::2] for text in found.env) == image.env
    with pytest.raises(FetchError, match="the registry does not give"):
        inspect_anywhere(f"docker://{registry.name}@sha256:{'0' * 64}", "arm64", world)
    with pytest.raises(RecipeError, match="is not pinned by digest"):
        inspect_anywhere(f"docker://{registry.name}:v1", "arm64", world)


def test_an_index_of_several_platforms_is_pulled_by_its_own_digest(
    registry: Registry, world: Context, tmp_path: Path
) -> None:
    """The pin of a base is mostly such an index's: what is pulled has another digest, and the index names it."""
    digest = two_platforms(registry, tmp_path / "two", "oci")
    facts = inspect_anywhere(f"docker://{registry.name}@{digest}", "arm64", world)
    assert set(facts.root.entries) == {"arm64"}
    assert facts.digest != digest
    base = bring(f"{registry.name}@{digest}", "arm64", world)
    found = standing(ImagePin(f"{registry.name}@{digest}", ""), "", "arm64", None, world.store)
    assert found == base.standing == Standing((digest,), found.layers, ("A=arm64",))
    given = standing(ImagePin(f"{registry.name}@{digest}", ""), base.reference, "arm64", None, world.store)
    assert given == replace(found, digests=(facts.digest, digest))


def two_platforms(registry: Registry, folder: Path, form: str) -> str:
    """An index of two platforms in the registry, in OCI's form or Docker's older one; its digest."""
    pictures = (Picture([layer_tar({a: Node()})], {"Env": [f"A={a}"]}, architecture=a) for a in ("amd64", "arm64"))
    write_layout(folder, *pictures)
    index = (folder / "index.json").read_bytes()
    digest = put(folder, index, "")["digest"]
    top = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest, "size": len(index)}
    (folder / "index.json").write_bytes(dump({"schemaVersion": 2, "manifests": [top]}))
    kept = ["--preserve-digests"] if form == "oci" else ["--format", "v2s2"]
    copy = ["skopeo", "copy", "--all", "--dest-tls-verify=false", *kept, f"oci:{folder}"]
    subprocess.run([*copy, f"docker://{registry.name}:two"], check=True, capture_output=True)
    look = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry.name}:two"]
    there = subprocess.run(look, check=True, capture_output=True).stdout
    assert ("vnd.docker.distribution.manifest.list" in there.decode()) == (form == "docker")
    return f"sha256:{hashlib.sha256(there).hexdigest()}"


@pytest.mark.parametrize("form", ["oci", "docker"])
def test_locking_asks_the_registry_for_the_base_and_verify_knows_it_then(
    registry: Registry, world: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """`image lock` in earnest but for uv: what it writes of the base is what the base is when it is pulled."""
    digest = two_platforms(registry, tmp_path / "two", form)
    pin = ImagePin(f"{registry.name}:two@{digest}", "")
    file = LockedFile("other", "2.0", "other-2.0-py3-none-any.whl", "b" * 64, 7, ("image-aarch64",))
    monkeypatch.setattr(verbs, "resolve", lambda *_: (file,))
    monkeypatch.setattr(verbs, "_paths", lambda *_: {})
    lock = tmp_path / "lock.toml"
    asked = verbs.Asked(load("aeon7", ROOT), pin, {"lock": str(lock)}, ROOT, tmp_path)
    document, text = verbs._lock(asked, world)
    assert "the base has 1 layers" in text
    pulled = bring(f"{registry.name}@{digest}", "arm64", world)
    assert document["base_layers"] == [layer.diff_id for layer in pulled.facts.layers]
    assert read_base(lock) == LockedBase(digest, pulled.standing.layers, ("A=arm64",))
    bare = Store(tmp_path / "bare")  # without the base that was pulled
    assert standing(pin, "", "arm64", lock, bare) == pulled.standing


def test_a_registry_that_is_not_there(image: ContainerFacts, world: Context) -> None:
    with pytest.raises(PublishError, match="did not take the image"):
        push_image(image, "127.0.0.1:9/team/x:y", world)


def test_the_verb_judges_what_was_built(image: ContainerFacts, order: Order) -> None:
    call = [sys.executable, "-m", "builder", "verify", image.reference, "--json"]
    good = subprocess.run(call, check=False, capture_output=True, cwd=ROOT)
    assert (good.returncode, json.loads(good.stdout)["good"]) == (0, True)
    call.insert(-1, "base=sha256:" + "0" * 64)
    other = subprocess.run(call, check=False, capture_output=True, cwd=ROOT)
    assert other.returncode == 1
    assert [f["rule"] for f in json.loads(other.stdout)["images"][0]["findings"]] == ["image-base"]
    call[-2] = f"base={order.base.reference}"
    assert subprocess.run(call, check=False, capture_output=True, cwd=ROOT).returncode == 0


def test_the_verb_judges_it_by_its_recipe(image: ContainerFacts, order: Order, world: Context, tmp_path: Path) -> None:
    """By lock and wheels, and by nothing that the image says; the verdicts on the wheels alone are taken as given."""
    (tmp_path / "lock.toml").write_text(lock_text(order.files))
    options = {
        "recipe": "aeon7",
        "wheels": str(order.wheels[0].wheel.path.parent),
        "lock": str(tmp_path / "lock.toml"),
        "python": PYTHON.version,
    }

    def judged(more: Mapping[str, str]) -> list[str]:
        document, _, good = run_image_verb(
            [image.reference], {**options, **more}, world, ROOT, lambda _: ([], "", True)
        )
        found = [f["rule"] for f in document["images"][0]["findings"]]
        assert good == (not found)
        return found

    assert judged({"base": order.base.reference}) == []
    assert judged({"base": order.base.digest}) == ["image-base"], "its layers are not known here"
    assert judged({}) == ["image-base", "image-env"], "it stands on another base than the recipe's, with its bytecode"
    (tmp_path / "lock.toml").write_text(lock_text([*order.files, replace(order.compiler, roles=("image-aarch64",))]))
    assert judged({"base": order.base.reference}) == ["image-wheel", "image-env"], "a locked wheel is not there"


# -- emulation ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def running(image: ContainerFacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's root file system, unpacked; no image of ours has whiteouts."""
    root = tmp_path_factory.mktemp("root")
    blobs = Path(image.reference.split(":")[1]) / "blobs" / "sha256"
    for layer in image.layers:
        with tarfile.open(blobs / layer.digest.removeprefix("sha256:")) as tar:
            tar.extractall(root, filter="tar")
    return root


def emulated(root: Path, image: ContainerFacts, *words: str) -> subprocess.CompletedProcess[str]:
    call = [str(EMULATE), str(root), *words]
    done = subprocess.run(call, check=False, capture_output=True, text=True, env=dict(image.env))
    if "binfmt_misc" in done.stderr:
        pytest.skip(f"no binfmt_misc in a user namespace here: {done.stderr.strip()}")
    return done


def test_what_can_be_run_runs(image: ContainerFacts, running: Path) -> None:
    entry = image.entrypoint[0]
    shown = emulated(running, image, entry, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "serve MODEL" in shown.stdout
    ask = "import demo, other, platform, sys; print(demo.__version__, platform.machine(), sys.prefix)"
    asked = emulated(running, image, entry, "python", "-c", ask)
    assert asked.stdout.split() == ["1.0", "aarch64", "/opt/spark"], asked.stderr
    assert json.loads(emulated(running, image, entry, "version").stdout) == {"vllm": "0.20.0"}
    checked = json.loads(emulated(running, image, entry, "check").stdout)
    assert checked == {"modules": [], "versions": {"vllm": "0.20.0"}, "vllm": "0.20.0"}
    for words, passed in (
        (["vllm", "--help"], ["--help"]),
        (["serve", "a/model", "--port", "9"], ["serve", "a/model", "--port", "9"]),
    ):
        done = emulated(running, image, entry, *words)
        assert (json.loads(done.stdout), done.stderr) == (passed, "")


def test_its_ptxas_knows_the_device(image: ContainerFacts, running: Path) -> None:
    ptxas = image.env["TRITON_PTXAS_PATH"]
    assert "release 13.0, V13.0.88" in emulated(running, image, ptxas, "--version").stdout
    code = ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k() { ret; }\n"
    (running / "tmp" / "k.ptx").write_text(code)
    done = emulated(running, image, ptxas, "-arch=sm_121a", "tmp/k.ptx", "-o", "tmp/k.cubin")
    assert (done.returncode, done.stderr) == (0, "")
    assert (running / "tmp" / "k.cubin").read_bytes()[:4] == b"\x7fELF"


def test_the_health_check_says_no_where_nothing_listens(image: ContainerFacts, running: Path) -> None:
    assert emulated(running, image, image.healthcheck[1]).returncode == 1


# -- the distribution's packages ----------------------------------------------------------------


def test_packages_are_installed_in_a_layer_of_their_own(
    order: Order, world: Context, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The one step that runs programs of the target, under emulation: apt and dpkg, from an archive in the base."""
    place = tmp_path_factory.mktemp("apt")
    apt_base.make(place / "base", Path(os.environ.get("SPARK_WHEELS_APT", place / "apt")))
    base = bring(f"oci:{place / 'base'}", "arm64", world)
    pin = replace(order.pin, packages=(apt_base.NAME,), snapshot="")
    other = replace(order, pin=pin, base=base, out=tmp_path / "out", with_packages=True)
    emulating = replace(world, run=under_emulation)
    try:
        image = make_image(other, "buildah", emulating)
    except RunError as error:
        if "binfmt_misc" in (world.logs / "buildah-0.log").read_text():
            pytest.skip(f"no binfmt_misc in a user namespace here: {error.what}")
        raise
    assert len(image.layers) == len(base.facts.layers) + 1 + len(LAYERS)
    assert image.root.entries["usr/bin/spark-test-tool"].layer == 1
    users = (image.root.text("etc/passwd") or "").splitlines()
    assert users[-2:] == ["tool:x:777:777::/nonexistent:/usr/sbin/nologin", USER_LINE]
    assert f"pkg:deb/debian/{apt_base.NAME}@1.0-1?arch=arm64" in {
        part["purl"].partition("&")[0] for part in attached_bill(image)["components"] if "purl" in part
    }
    again = make_image(replace(other, out=tmp_path / "again"), "buildah", emulating)
    assert again.digest == image.digest


def under_emulation(argv: Sequence[str | Path], **more: Any) -> Completed:  # noqa: ANN401  as the Runner takes them
    """The real Runner, with buildah where programs for arm64 are run."""
    return run([EMULATED, *argv] if argv[0] == "buildah" else argv, **more)
