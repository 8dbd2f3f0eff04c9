"""The user's pip and uv settings, from files and variables, in their documented order."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builder.context import Context
from builder.errors import FetchError
from builder.fetch import Index, candidates, fetch
from builder.model import LockedFile


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user without settings, on a system without any (but /etc/pip.conf, which pip reads always)."""
    (tmp_path / "xdg").mkdir()
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "SSL_CERT_FILE": ""}


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_settings_the_public_default_is_asked(env: dict[str, str]) -> None:
    index = Index.configured(env | {"PIP_CONFIG_FILE": os.devnull})
    assert index == Index()
    assert index.places() == ("the default package index",)


def test_pip_files_and_variables_in_their_order(env: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://global/\ntimeout = 7\ntrusted-host = a\n  b\n")
    put(tmp_path / ".pip/pip.conf", "[global]\nindex-url = https://legacy/\nextra-index-url = https://x/ https://y/\n")
    put(tmp_path / ".config/pip/pip.conf", "[global]\nindex_url = https://user/\n[install]\nno-index = no\n")
    index = Index.configured(env)
    assert (index.default, index.extra) == ("https://user/", ("https://x/", "https://y/"))
    assert (index.timeout, index.trusted_hosts, index.no_index) == (7.0, ("a", "b"), False)
    assert Index.configured(env | {"PIP_INDEX_URL": "https://variable/"}).default == "https://variable/"


def test_a_chosen_pip_file_beats_the_users_own(env: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path / ".config/pip/pip.conf", "[global]\nindex-url = https://user/\nfind-links = /user\n")
    chosen = put(tmp_path / "chosen.conf", "[global]\nindex-url = https://chosen/\n[install]\nindex-url = https://i/\n")
    index = Index.configured(env | {"PIP_CONFIG_FILE": str(chosen)})
    assert (index.default, index.find_links) == ("https://i/", ())


def test_pip_itself_reads_the_same(env: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://global/\nretries = 2\n")
    put(tmp_path / ".pip/pip.conf", "[global]\nindex-url = https://legacy/\n")
    put(tmp_path / ".config/pip/pip.conf", "[global]\nextra-index-url = https://x/\n  https://y/\n")
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    index = Index.configured(env)
    assert f"global.index-url='{index.default}'" in said
    assert index.extra == ("https://x/", "https://y/")


def test_find_links_certificates_and_proxy(env: dict[str, str], tmp_path: Path) -> None:
    own = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": f"{tmp_path} https://links/",
        "PIP_CERT": "/ca.pem",
        "PIP_CLIENT_CERT": "/me.pem",
        "PIP_PROXY": "http://p:1",
        "PIP_NO_INDEX": "1",
        "PIP_DEFAULT_TIMEOUT": "60",
    }
    assert Index.configured(env | own) == Index(
        find_links=(str(tmp_path), "https://links/"),
        cert="/ca.pem",
        client_cert="/me.pem",
        proxy="http://p:1",
        timeout=60.0,
        no_index=True,
    )


def test_uv_variables_and_named_logins(env: dict[str, str]) -> None:
    index = Index.configured(
        env
        | {
            "PIP_CONFIG_FILE": os.devnull,
            "UV_DEFAULT_INDEX": "main=https://main/simple",
            "UV_INDEX": "my-own=https://own/simple https://plain/?a=b",
            "UV_EXTRA_INDEX_URL": "https://extra/",
            "UV_INDEX_MY_OWN_USERNAME": "me",
            "UV_INDEX_MY_OWN_PASSWORD": "p@ss",
            "UV_INSECURE_HOST": "own",
        }
    )
    assert index.default == "https://main/simple"
    assert index.extra == ("https://me:p%40ss@own/simple", "https://plain/?a=b", "https://extra/")
    assert index.trusted_hosts == ("own",)
    assert not any("p%40ss" in place for place in index.places())


def test_uv_toml_tables(env: dict[str, str], tmp_path: Path) -> None:
    put(
        tmp_path / ".config/uv/uv.toml",
        """
        find-links = ["/links"]
        extra-index-url = ["https://old-extra/"]
        [[index]]
        url = "https://second/"
        [[index]]
        url = "https://first/"
        default = true
        [[index]]
        url = "https://only-on-demand/"
        explicit = true
        [[index]]
        url = "https://flat/"
        format = "flat"
        """,
    )
    index = Index.configured(env | {"PIP_CONFIG_FILE": os.devnull})
    assert index.default == "https://first/"
    assert index.extra == ("https://second/", "https://old-extra/")
    assert index.find_links == ("/links", "https://flat/")
    assert Index.configured(env | {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}) == Index()


def test_pip_and_uv_together_lose_neither_index(env: dict[str, str]) -> None:
    both = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://pip/", "UV_DEFAULT_INDEX": "https://uv/"}
    index = Index.configured(env | both)
    assert (index.default, index.extra) == ("https://pip/", ("https://uv/",))


@pytest.mark.parametrize(
    ("name", "text"),
    [(".config/pip/pip.conf", "index-url = no section\n"), (".config/uv/uv.toml", "index = [\n")],
)
def test_a_broken_settings_file_is_named(env: dict[str, str], tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path / name, text)
    with pytest.raises(FetchError, match="cannot read the package index settings") as caught:
        Index.configured(env)
    assert caught.value.where == str(path)


def test_certificates_that_are_not_there_are_named(tmp_path: Path, context: Context) -> None:
    file = LockedFile("spam", "1.0", "spam-1.0.tar.gz", "0" * 64, 1)
    with pytest.raises(FetchError, match="certificates or proxy"):
        fetch(file, context.store, context.report, Index(cert=str(tmp_path / "absent.pem")))


@pytest.mark.network
def test_the_real_index_offers_the_pinned_sdist(context: Context) -> None:
    index = replace(Index.configured(), timeout=30)
    pinned = "37b320efa00d8bf14a13f3a3bbc529faad171c47daa18bf381c892bee306d974"
    offer = next(found for found in candidates("flashinfer-python", index) if found.sha256 == pinned)
    assert (offer.filename, offer.version, offer.size) == ("flashinfer_python-0.6.8.tar.gz", "0.6.8", 6672179)
    file = LockedFile("flashinfer-python", offer.version, offer.filename, offer.sha256, offer.size)
    assert fetch(file, context.store, context.report, index).stat().st_size == offer.size
