"""Holds raw TOML against the tables and words each fault for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from builder.recipe.problems import Problem, did_you_mean, table_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_TYPES = {
    "string_type": "a string",
    "int_type": "an integer",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_TOML_WORDS = {str: "string", bool: "boolean", int: "integer", float: "float", list: "array", dict: "table"}


def faults(
    model: type[BaseModel], data: Mapping[str, object], file: Path, *, partial: bool = False
) -> Iterator[Problem]:
    """Every way in which `data` is not a `model`; with `partial`, absent keys are no fault."""
    try:
        model.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if not (partial and detail["type"] == "missing"):
                yield _problem(model, detail, data, file)


def _problem(model: type[BaseModel], detail: ErrorDetails, data: Mapping[str, object], file: Path) -> Problem:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    kind = detail["type"]
    if kind in {"extra_forbidden", "missing"}:
        table, inner = table_name((*location[:-1], ""), data)
        inside = f"{inner.rstrip('.')}: " if inner.rstrip(".") else ""
        return Problem(file, table, f"{inside}{_key_fault(model, location, kind)}")
    table, key = table_name(location, data)
    return Problem(file, table, f"{key}: {_value_fault(detail)}" if key else _value_fault(detail))


def _key_fault(model: type[BaseModel], location: tuple[int | str, ...], kind: str) -> str:
    key = str(location[-1])
    if kind == "missing":
        return f"key {key!r} is missing"
    return f"unknown key {key!r}{did_you_mean(key, _keys_at(model, location[:-1]))}"


def _value_fault(detail: ErrorDetails) -> str:
    kind, given = detail["type"], detail["input"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {_toml_word(given)}"
    if kind == "too_short":
        return "must not be empty"
    message = detail["msg"]
    return message[0].lower() + message[1:]


def _toml_word(value: object) -> str:
    word = _TOML_WORDS.get(type(value), type(value).__name__)
    return f"{word} {value!r}" if isinstance(value, int | float | str) else word


def _keys_at(model: type[BaseModel], location: Iterable[int | str]) -> tuple[str, ...]:
    for part in location:
        if isinstance(part, str):
            field = model.model_fields.get(part)
            inner = None if field is None else _model_in(field.annotation)
            if inner is None:
                return ()
            model = inner
    return tuple(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401  any annotation at all
    if get_origin(annotation) is None:
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
