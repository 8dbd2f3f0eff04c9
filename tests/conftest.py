"""Shared fixtures: a store of one's own, and network only where a test declares it."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest
import pytest_socket

from builder.context import Context
from builder.report import Report
from builder.store import Store

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") is not None:
        pytest_socket.enable_socket()
        pytest_socket._remove_restrictions()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A context over an empty store, with a reporter that writes to memory."""
    return Context(Store(tmp_path / "store"), tmp_path / "logs", report=Report(io.StringIO(), github=False))
