"""Several machines' shares into one shared cache, then the build that links, against one machine alone.

Run with `python -m benchmarks.shards [backend=redis|s3] [count=2] [recipe=tiny] [store=PATH] [jobs=N]`; needs
redis-server, or moto, which speaks S3. Each share has a store and an empty canonical folder of its own; they run one
after the other on this machine, each with all its cores, so the longest of them is what several machines would take.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.lab import laboratory, options_of, say


def main(argv: list[str]) -> None:
    """One build alone, the shares, the build that links; a line for each."""
    options = options_of(argv)
    recipe, count = options.get("recipe", "tiny"), int(options.get("count", 2))
    with laboratory(options) as lab, server(options.get("backend", "redis"), lab.folder) as shared:
        checkout = lab.checkout("checkout", modules=int(options.get("modules", 4)))
        alone = lab.build(checkout, lab.store("alone"), recipe, f"out={lab.folder / 'out-alone'}")
        say(f"one machine, empty cache: {alone.seconds:.1f} s, {alone.document['units']['compiled']} units")
        seconds = []
        for number in range(1, count + 1):
            lab.forget_work()
            store, out = lab.store(f"store-{number}"), lab.folder / f"out-{number}"
            part = lab.build(checkout, store, recipe, f"shard={number}/{count}", f"out={out}", env=shared)
            seconds.append(part.seconds)
            done = ", ".join(f"{p['name']} {len(p['units'])}/{p['of']}" for p in part.document["packages"] if p["of"])
            say(f"share {number}/{count}: {part.seconds:.1f} s; {done}; {part.hits[1]} misses")
        lab.forget_work()
        linked = lab.build(checkout, lab.store("link"), recipe, f"out={lab.folder / 'out-link'}", env=shared)
        say(f"the build that links: {linked.seconds:.1f} s, {linked.hits[0]} hits, {linked.hits[1]} misses")
        say(f"longest share / one machine: {max(seconds) / alone.seconds:.2f}")
        assert linked.hits[1] == 0, linked.hits
        assert linked.document["units"]["compiled"] == 0
        assert linked.digests == alone.digests
        say("the wheels are those of one machine, byte for byte")


@contextmanager
def server(kind: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """A cache server on this machine; yields sccache's settings for it."""
    port = _free_port()
    argv, settings = _redis(port, folder) if kind == "redis" else _s3(port)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        if kind != "redis":
            _bucket(port)
        yield settings
    finally:
        process.terminate()
        process.wait()


def _redis(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    tool = shutil.which("redis-server") or sys.exit("install redis-server")
    argv = [tool, "--port", str(port), "--save", "", "--dir", str(folder)]
    return argv, {"SCCACHE_REDIS_ENDPOINT": f"redis://127.0.0.1:{port}"}


def _s3(port: int) -> tuple[list[str], dict[str, str]]:
    settings = {
        "SCCACHE_BUCKET": "cache",
        "SCCACHE_ENDPOINT": f"http://127.0.0.1:{port}",
        "SCCACHE_REGION": "us-east-1",
        "SCCACHE_S3_USE_SSL": "false",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], settings


def _bucket(port: int) -> None:
    import boto3  # type: ignore[import-untyped]  # moto brings it

    place = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    boto3.client("s3", **place, **keys).create_bucket(Bucket="cache")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, patience: float = 30.0) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")
    main(sys.argv[1:])
