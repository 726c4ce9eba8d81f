"""What parts hand to later steps, typed on both sides of the ledger's JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from storage.errors import StorageError
from storage.runs.ledger import Record
from storage.runs.run import ANEW

T = TypeVar("T")
LabelValue = bool | int | float | str
"""A label as the user gives it."""


def as_json(result: object) -> Any:
    """What a part leaves for the steps to come, as its record is to hold it.

    Small values: numbers, texts, lists, tuples, dictionaries and frozen dataclasses of such; a
    function of the inputs alone, since equal runs have equal records.
    """
    return _adapter(type(result)).dump_python(result, mode="json")


def of_json(content: Any, kind: type[T]) -> T:
    """The same again, of a kind."""
    result: T = _adapter(kind).validate_python(content)
    return result


def result_of(record: Record, kind: type[T]) -> T:
    """What a part left in its record; raises `StorageError` where it is of another version."""
    try:
        return of_json(record.result, kind)
    except ValidationError as error:
        raise StorageError(
            f"the record of {record.step} {record.part} is of another version of knnoise; {ANEW}"
        ) from error


@dataclass(frozen=True)
class Outcome:
    """What came of one step."""

    parts: int
    digest: str
    """Of the files and results of all parts; equal outputs have equal digests."""
    core_seconds: float
    kernel_seconds: float


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Made once per type."""
