"""An index in S3-compatible storage.

Pages are replaced with conditional writes (If-Match, If-None-Match), which S3 has had since 2024
and MinIO, Ceph, R2 and others share. Address and login come from the usual AWS_* variables.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from builder.errors import PublishError, StoreError
from builder.publish.shelf import Item, Kept, refuse_other_bytes

_CHUNK = 8 << 20
_LOGINS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",  # a bucket that anyone may read
)
_METADATA = "http://169.254.169.254"  # where a cloud's machine finds its role
_PATIENCE = 2.0  # seconds; it is on the machine's own network
_ROLE = ("/latest/api/token", "/latest/meta-data/")  # where the library looks last, when the environment has no login
_PAGE = "no-cache"
_FILE = "public, max-age=31536000, immutable"
_SMALL = {".provenance.json": "application/json", ".provenance": "application/vnd.pypi.integrity.v1+json"}
_TYPES = {"index.html": "text/html; charset=utf-8", "index.json": "application/vnd.pypi.simple.v1+json"}


@dataclass(frozen=True, slots=True)
class ObjectShelf:
    """An index under a prefix of a bucket."""

    store: S3Store
    url: str

    @classmethod
    def open(cls, url: str) -> ObjectShelf:
        """`s3://BUCKET/PREFIX`; raises PublishError for anything else, StoreError without any login."""
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise PublishError(
                f"{url} is no place for an index",
                expected="a folder, or s3://BUCKET/PREFIX",
                remedy="correct index=PLACE",
            )
        _refuse_without_login(url)
        retry = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
        with _said(url):
            store = S3Store(parts.netloc, prefix=parts.path.strip("/") or None, retry_config=retry)  # type: ignore[arg-type]
        return cls(store, url)

    def read(self, key: str) -> Kept | None:
        """The object at `key`, or None."""
        try:
            with _said(self.url):
                found = obstore.get(self.store, key)
                return Kept(bytes(found.bytes()), found.meta["e_tag"] or "")
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
        """Put the object if it is still `over`."""
        try:
            with _said(self.url):
                obstore.put(
                    self.store,
                    key,
                    data,
                    attributes={"Content-Type": _TYPES[key.rpartition("/")[2]], "Cache-Control": _PAGE},
                    mode="create" if over is None else {"e_tag": over.version},
                    use_multipart=False,
                )
        except (AlreadyExistsError, PreconditionError):
            return False
        except FileNotFoundError as error:
            if over is None:
                raise _refusal(self.url, error) from error
            return False
        return True

    def has(self, key: str, size: int) -> bool:
        """Whether an object of that many bytes is there."""
        try:
            with _said(self.url):
                return obstore.head(self.store, key)["size"] == size
        except FileNotFoundError:
            return False

    def put(self, key: str, data: bytes) -> None:
        """Keep a small immutable object."""
        with _said(self.url, absent=True):
            kind = next((kind for end, kind in _SMALL.items() if key.endswith(end)), "text/plain; charset=utf-8")
            attributes = {"Content-Type": kind, "Cache-Control": _FILE}
            obstore.put(self.store, key, data, attributes=attributes, use_multipart=False)

    def put_file(self, key: str, path: Path, sha256: str) -> None:
        """Upload in parts; the object appears when the last part is in, and only with that digest."""
        with _said(self.url, absent=True):
            attributes = {"Content-Type": "application/octet-stream", "Cache-Control": _FILE}
            obstore.put(self.store, key, _proven(path, sha256), attributes=attributes, chunk_size=_CHUNK)

    def items(self, prefix: str) -> Iterator[Item]:
        """Everything under the folder `prefix`."""
        with _said(self.url):
            for batch in obstore.list(self.store, prefix=prefix):
                for found in batch:
                    yield Item(found["path"], found["size"], found["last_modified"])

    def delete(self, item: Item) -> bool:
        """Remove an object unless it was written since it was listed.

        Some stores list milliseconds, and a HEAD has whole seconds everywhere.
        """
        try:
            with _said(self.url):
                if _second(obstore.head(self.store, item.key)["last_modified"]) > _second(item.written):
                    return False
                obstore.delete(self.store, item.key)
        except FileNotFoundError:
            return False
        return True


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _proven(path: Path, sha256: str) -> Iterator[bytes]:
    """The file's pieces, the last one held back until the digest is known to be right."""
    digest, held = hashlib.sha256(), b""
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK), b""):
            digest.update(chunk)
            if held:
                yield held
            held = chunk
    refuse_other_bytes(path, digest.hexdigest(), sha256)
    yield held


@contextmanager
def _said(url: str, *, absent: bool = False) -> Iterator[None]:
    """Lost races pass through, absence too unless `absent` is an error; the rest is a StoreError in words."""
    try:
        yield
    except FileNotFoundError as error:
        if absent:
            raise _refusal(url, error) from error
        raise
    except (AlreadyExistsError, PreconditionError):
        raise
    except (BaseError, PermissionError) as error:
        raise _refusal(url, error) from error


def _refuse_without_login(url: str) -> None:
    """Asked once and briefly, for the library asks a machine that has no role for half a minute."""
    if any(os.environ.get(name) for name in _LOGINS):
        return
    place = urlsplit(os.environ.get("AWS_METADATA_ENDPOINT", _METADATA))
    try:
        socket.create_connection((place.hostname or "", place.port or 80), _PATIENCE).close()
    except OSError as error:
        raise _no_login(url) from error


def _no_login(url: str) -> StoreError:
    return StoreError(
        "there is no login for the object store",
        where=url,
        expected="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a machine that its cloud gives a role",
        remedy="set them, and AWS_ENDPOINT_URL for a store that is not Amazon's, and run again",
    )


def _refusal(url: str, error: Exception) -> StoreError:
    if any(place in str(error) for place in _ROLE):
        return _no_login(url)
    return StoreError(
        f"the object store refused: {str(error).splitlines()[0][:300]}",
        where=url,
        remedy="check the bucket, AWS_ENDPOINT_URL, AWS_REGION and the login, then run again; what is published stays",
    )
