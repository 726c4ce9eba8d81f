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

R = TypeVar("R", bound="Result")
LabelValue = bool | int | float | str
"""A label as the user gives it."""


@dataclass(frozen=True)
class Result:
    """Small values that a part leaves in its record for the steps to come.

    A subclass is a frozen dataclass of numbers, texts, lists, tuples and other such dataclasses; a
    function of the inputs alone, since equal runs have equal records.
    """

    @classmethod
    def of(cls: type[R], record: Record) -> R:
        """The result as a record holds it; raises `StorageError` where it is of another version."""
        try:
            return cls.of_json(record.result)
        except ValidationError as error:
            raise StorageError(
                f"the record of {record.step} {record.part} is of another version of knnoise; "
                + ANEW
            ) from error

    @classmethod
    def of_json(cls: type[R], content: Any) -> R:
        """The result as `as_json` made it."""
        result: R = _adapter(cls).validate_python(content)
        return result

    def as_json(self) -> dict[str, Any]:
        """The result as a record is to hold it."""
        content: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json")
        return content


@dataclass(frozen=True)
class Outcome:
    """What came of one step."""

    parts: int
    digest: str
    """Of the files and results of all parts; equal outputs have equal digests."""
    core_seconds: float
    kernel_seconds: float


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Made once per class."""
