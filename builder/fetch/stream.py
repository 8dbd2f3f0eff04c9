"""One HTTP answer as raw bytes from an offset, with every way it can break under one name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2

from builder.errors import DigestError, FetchError
from builder.fetch.session import BACKOFF, TRIES, Unreachable
from builder.run import masked

__all__ = ["BACKOFF", "TRIES", "Broken", "read_from"]


class Broken(Exception):
    """The connection ended before the file did; asking again from the offset may help."""


def read_from(client: httpx2.Client, url: str, offset: int, total: int) -> Iterator[bytes]:
    """Bytes `offset` to the end; `total` bytes are expected in all (0: unknown).

    Raises Broken when asking again may help, FetchError when it will not, DigestError when
    more bytes come than the file has.
    """
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
    position = offset
    try:
        with client.stream("GET", url, headers=headers) as response:
            for chunk in _from_offset(response, url, offset):
                position += len(chunk)
                if total and position > total:
                    raise _too_long(url, total)
                yield chunk
    except (httpx2.HTTPError, Unreachable) as error:
        raise Broken(str(error) or type(error).__name__) from error
    if total and position < total:
        raise Broken(f"the connection closed after {position} of {total} bytes")


def _from_offset(response: httpx2.Response, url: str, offset: int) -> Iterator[bytes]:
    """The body from `offset`, also from a server that ignores ranges and starts over."""
    if response.status_code == 416:
        raise Broken(f"the server has no byte {offset}")
    if response.status_code not in {200, 206}:
        raise FetchError(
            f"the package index refused a file with HTTP {response.status_code}",
            where=masked(url),
            remedy="check the login of the index (netrc or the URL)" if response.status_code in {401, 403} else "",
        )
    skip = offset - _start(response)
    if skip < 0:
        raise Broken("the server answered with another range")
    for chunk in response.iter_raw():  # without a chunk size: gathering loses the rest at a break
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        yield chunk[skip:]
        skip = 0


def _start(response: httpx2.Response) -> int:
    if response.status_code == 200:
        return 0
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if match is None:
        raise Broken("the server answered with a range it does not name")
    return int(match[1])


def _too_long(url: str, total: int) -> DigestError:
    return DigestError(
        "a file is longer than the pinned one",
        where=masked(url),
        expected=f"{total} bytes",
        remedy="if upstream really replaced it, review the new file and update the pin",
    )
