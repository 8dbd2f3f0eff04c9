"""One exit code a class, and messages that say what, where, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builder import errors
from builder.__main__ import UNHEARD
from builder.errors import BuilderError, NegativeVerdict, UsageError


def _classes(base: type[BuilderError]) -> Iterator[type[BuilderError]]:
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _classes(child)


CLASSES = list(_classes(BuilderError))


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: str(error.__name__))
def test_every_class_states_a_code_of_its_own(error: type[BuilderError]) -> None:
    assert "exit_code" in vars(error)
    assert [other for other in CLASSES if other.exit_code == error.exit_code] == [error]


def test_1_and_2_are_reserved_and_all_codes_are_exit_codes() -> None:
    codes = {error.exit_code: error for error in CLASSES}
    assert codes[1] is NegativeVerdict
    assert codes[2] is UsageError
    assert all(0 < code < 256 for code in codes)
    assert UNHEARD not in codes


def test_every_class_of_the_file_is_in_the_tree() -> None:
    own = [thing for thing in vars(errors).values() if isinstance(thing, type) and thing.__module__ == errors.__name__]
    assert set(own) == {BuilderError, *CLASSES}
    assert all(error.__doc__ for error in own)


def test_nothing_raises_the_base_class() -> None:
    from tests.test_architecture import SOURCES

    assert not [path for path, text in SOURCES.items() if "raise BuilderError(" in text]


def test_message_layout() -> None:
    error = UsageError("unknown verb 'biuld'", where="the command line", expected="build", remedy="ask for help")
    lines = ["unknown verb 'biuld'", "  where: the command line", "  expected: build", "  next: ask for help"]
    assert str(error).splitlines() == lines


def test_what_is_not_known_is_not_said() -> None:
    assert str(UsageError("what happened")) == "what happened"
    assert str(UsageError("what happened", remedy="do this")) == "what happened\n  next: do this"
