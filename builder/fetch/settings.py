"""Where files come from: the pip and uv settings that the user already has.

pip: defaults < global, user and environment (venv) files < PIP_CONFIG_FILE < PIP_* variables.
uv: system uv.toml < user uv.toml < UV_* variables. pip has no importable reader of its settings
and starting `pip config list` costs half a second, so the few keys that matter are read here.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from builder.errors import FetchError
from builder.run import masked

_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})


@dataclass(frozen=True, slots=True)
class Index:
    """The main index (empty: the public one), further ones, find-links, and how to connect.

    `timeout` is in seconds and bounds each wait, not a whole download.
    """

    default: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    timeout: float = 15.0
    no_index: bool = False

    @classmethod
    def configured(cls, env: Mapping[str, str] | None = None) -> Index:
        """The index of the user's pip and uv settings; raises FetchError on an unreadable file."""
        env = os.environ if env is None else env
        pip, uv = _pip_settings(env), _uv_settings(env)
        default = pip.get("index-url") or uv.default
        return cls(
            default=default,
            extra=_unique(
                url for url in (*pip.get("extra-index-url", "").split(), *uv.extra, uv.default) if url != default
            ),
            find_links=_unique([*map(_place, pip.get("find-links", "").split()), *map(_place, uv.find_links)]),
            trusted_hosts=_unique([*pip.get("trusted-host", "").split(), *uv.trusted]),
            cert=pip.get("cert") or env.get("SSL_CERT_FILE", "") or env.get("REQUESTS_CA_BUNDLE", ""),
            client_cert=pip.get("client-cert", ""),
            proxy=pip.get("proxy", ""),
            timeout=_seconds(pip.get("timeout") or pip.get("default-timeout", "")),
            no_index=pip.get("no-index", "").lower() in _TRUE or uv.no_index,
        )

    def places(self) -> tuple[str, ...]:
        """Where a file is looked for, logins masked."""
        urls = () if self.no_index else (self.default or "the default package index", *self.extra)
        return tuple(masked(url) for url in (*self.find_links, *urls))


@dataclass(frozen=True, slots=True)
class _Uv:
    default: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    no_index: bool = False


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _place(text: str) -> str:
    return text if "://" in text else str(Path(text).expanduser().absolute())


def _seconds(text: str) -> float:
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 15.0


def _pip_settings(env: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in _pip_files(env):
        found |= _pip_file(path)
    for name, value in env.items():
        if name.startswith("PIP_") and value:
            found[name[4:].lower().replace("_", "-")] = value
    return found


def _pip_files(env: Mapping[str, str]) -> Iterator[Path]:
    chosen = env.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return
    yield from (folder / "pip" / "pip.conf" for folder in reversed(_system_folders(env)))
    yield Path("/etc/pip.conf")
    if not (chosen and Path(chosen).exists()):
        yield from (_home(env) / ".pip" / "pip.conf", _user_folder(env) / "pip" / "pip.conf")
    yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or Path.home())


def _user_folder(env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_CONFIG_HOME") or _home(env) / ".config")


def _system_folders(env: Mapping[str, str]) -> list[Path]:
    return [Path(part) for part in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if part]


def _pip_file(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    sections = [dict(parser[name]) for name in ("global", "install") if parser.has_section(name)]
    return {key.replace("_", "-"): value for section in sections for key, value in section.items()}


def _unreadable(path: Path, error: Exception) -> FetchError:
    return FetchError(
        f"cannot read the package index settings: {masked(str(error))}", where=str(path), remedy="mend or remove it"
    )


def _uv_settings(env: Mapping[str, str]) -> _Uv:
    named = [*_uv_words(env, "UV_DEFAULT_INDEX"), *_uv_words(env, "UV_INDEX_URL")]
    extra = [*_uv_words(env, "UV_INDEX"), *_uv_words(env, "UV_EXTRA_INDEX_URL")]
    files = [_uv_file(path, env) for path in _uv_files(env)]
    return _Uv(
        default=next(iter([*named, *(file.default for file in files if file.default)]), ""),
        extra=_unique([*extra, *(url for file in files for url in file.extra)]),
        find_links=_unique(
            [*env.get("UV_FIND_LINKS", "").split(","), *(place for file in files for place in file.find_links)]
        ),
        trusted=_unique([*env.get("UV_INSECURE_HOST", "").split(), *(host for file in files for host in file.trusted)]),
        no_index=env.get("UV_NO_INDEX", "").lower() in _TRUE or any(file.no_index for file in files),
    )


def _uv_words(env: Mapping[str, str], variable: str) -> list[str]:
    """URLs of a variable; each may be written `name=URL`."""
    return [_uv_url(word, env) for word in env.get(variable, "").split()]


def _uv_url(word: str, env: Mapping[str, str]) -> str:
    name, equals, url = word.partition("=")
    if not equals or "/" in name or ":" in name:
        return word
    return _with_login(url, name, env)


def _with_login(url: str, name: str, env: Mapping[str, str]) -> str:
    """The URL with the login that uv takes from UV_INDEX_<NAME>_USERNAME and _PASSWORD."""
    stem = "UV_INDEX_" + "".join(letter if letter.isalnum() else "_" for letter in name.upper())
    user, password = env.get(f"{stem}_USERNAME", ""), env.get(f"{stem}_PASSWORD", "")
    parts = urlsplit(url)
    if not name or not (user or password) or "@" in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"))


def _uv_files(env: Mapping[str, str]) -> list[Path]:
    """uv.toml files, the strongest first."""
    if env.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return []
    if env.get("UV_CONFIG_FILE"):
        return [Path(env["UV_CONFIG_FILE"])]
    folders = [_user_folder(env), *_system_folders(env), Path("/etc")]
    return [folder / "uv" / "uv.toml" for folder in folders]


def _uv_file(path: Path, env: Mapping[str, str]) -> _Uv:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return _Uv()
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    indexes = [item for item in _list(table, "index") if isinstance(item, dict) and not item.get("explicit")]
    simple = [item for item in indexes if item.get("format", "simple") != "flat"]
    urls = {
        bool(default): [_uv_entry(item, env) for item in simple if bool(item.get("default")) == default]
        for default in (True, False)
    }
    return _Uv(
        default=next(iter([*urls[True], *_strings(table, "index-url")]), ""),
        extra=(*urls[False], *_strings(table, "extra-index-url")),
        find_links=(*_strings(table, "find-links"), *(_uv_entry(item, env) for item in indexes if item not in simple)),
        trusted=tuple(_strings(table, "allow-insecure-host")),
        no_index=table.get("no-index") is True,
    )


def _uv_entry(item: Mapping[str, object], env: Mapping[str, str]) -> str:
    return _with_login(str(item.get("url", "")), str(item.get("name", "")), env)


def _list(table: Mapping[str, object], key: str) -> list[object]:
    value = table.get(key, [])
    return value if isinstance(value, list) else [value]


def _strings(table: Mapping[str, object], key: str) -> list[str]:
    return [str(value) for value in _list(table, key)]
