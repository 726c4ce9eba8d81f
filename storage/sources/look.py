"""What one table says of itself, before any row is read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types

from storage.errors import InputError
from storage.sources.ids import check_id_type
from storage.sources.paths import SourcePath, shown
from storage.sources.request import Request
from storage.sources.tables import (
    Feature,
    Selection,
    check_group_type,
    check_label_type,
    is_embedding,
    is_number,
)
from storage.sources.texts import parse_hint


class TableReader(Protocol):
    """What a format of tables implements, for one file."""

    @property
    def location(self) -> SourcePath:
        """The file."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Rows of the file; None where only reading tells."""
        ...

    @property
    def selection(self) -> Selection:
        """What is read of it."""
        ...

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on, in batches of any length; `rows` is the length wanted."""
        ...


@dataclass(frozen=True)
class Look:
    """The columns of one file, and how they are read."""

    location: SourcePath
    kinds: Mapping[str, pa.DataType | None]
    """Type by column; None: text, which is read as what is wanted. Empty if names occur twice."""
    names: tuple[str, ...]
    """Columns in file order."""
    n_rows: int | None
    first: Callable[[str], Any]
    """The first value of a column."""
    reader: Callable[[Selection], TableReader]
    hint: str = ""
    """What may be wrong where the columns are not as wanted."""

    def expanded(self, request: Request) -> dict[str, Feature]:
        """Where each name that a feature can have lies: a list of numbers has one for each place,
        a column that is encoded one for each category. Lists of candidates are no features.

        Names that occur twice are left for the choice of columns to refuse.
        """
        found: dict[str, Feature] = {}
        categories = request.coding.categories
        for name in self.names:
            if name in categories:
                values = categories[name]
                found |= {f"{name}={value}": Feature(name, category=value) for value in values}
                continue
            kind = None if name in (request.label, request.ignore) else self.kinds.get(name)
            length = self._length(name) if kind is not None and is_embedding(kind) else 0
            if length:
                found |= {f"{name}[{i}]": Feature(name, i, length) for i in range(length)}
            else:
                spelling = request.coding.spelling(name, request.dialect.decimal)
                found[name] = Feature(name, spelling=spelling)
        return found

    def _length(self, name: str) -> int:
        """Values in each list of a column; 0 where its first row has none."""
        kind = self.kinds[name]
        if types.is_fixed_size_list(kind):
            return int(kind.list_size)  # type: ignore[union-attr]
        return len(self.first(name) or ())

    def check(self, wanted: Selection) -> None:
        """Raise `InputError` unless the columns can be features, label, ids and groups."""
        for feature in wanted.features:
            kind = self.kinds.get(feature.column)
            plain = feature == Feature(feature.column)
            if kind is not None and plain and not is_number(kind):
                value = self.first(feature.column)
                hint = parse_hint(value, feature.column)
                raise InputError(
                    f"{self.location.name}: feature column {feature.column!r} is {kind}, not "
                    f"numeric: {shown(value)} at row 0; {hint}leave it out with --exclude "
                    f"{feature.column}"
                )
        for column, check in (
            (wanted.label, check_label_type),
            (wanted.id, check_id_type),
            (wanted.group, check_group_type),
        ):
            if column is not None and (kind := self.kinds.get(column)) is not None:
                check(self.location.name, column, kind)
