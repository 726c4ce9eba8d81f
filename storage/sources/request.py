"""What is asked of a source, and which of its columns that means."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from storage.errors import InputError
from storage.sources.coding import PLAIN_NUMBERS, Coding
from storage.sources.columns import ALL, Columns
from storage.sources.dialect import PLAIN, Dialect
from storage.sources.paths import listed, no_column, shown

MOST_COLUMNS = 1 << 15
"""Columns of a table: readers of CSV and Parquet take some 10 KB of memory for each."""
MOST_FEATURES = 1 << 16
"""Features of an array."""


@dataclass(frozen=True)
class Request:
    """Which columns or arrays to read."""

    label: str | None
    """Column (tables) or array (npz, Zarr) of the labels; None if not given."""
    with_labels: bool
    """Whether the labels are to be read from the source itself."""
    features: tuple[str, ...] | None
    """Names of the features at training; None takes what the source has."""
    ignore: str | None
    """Column that is no feature, if present."""
    dialect: Dialect = PLAIN
    """How text is written."""
    columns: Columns = ALL
    """Which columns are features and ids."""
    coding: Coding = PLAIN_NUMBERS
    """How what is no plain number becomes one."""
    raw: bool = False
    """Whether columns are only looked at: any type will do."""

    def id_and_group(self, where: str, names: Sequence[str]) -> tuple[str | None, str | None]:
        """The columns or arrays of ids and of groups among some names; None for what is not read.

        Raises `InputError` for one that is not there, or is that of something else.
        """
        own, group = self.columns.id, self.columns.group
        label = self.label if self.with_labels else None
        if own not in names and not self.columns.id_needed:
            own = None
        for column, option in ((own, "--id-column"), (group, "--by")):
            if column is not None and column not in names:
                raise InputError(
                    f"{where}: {option} {shown(column)} is not there; columns are {listed(names)}"
                )
        if own is not None and own == label:
            raise InputError(f"{where}: {shown(own)} cannot be both labels and ids")
        for other, what in ((label, "labels"), (own, "ids")):
            if group is not None and group == other:
                raise InputError(
                    f"{where}: --by {shown(group)} is the column of the {what}; name the one "
                    "that says whose labels they are"
                )
        return own, group


def choose_columns(
    where: str, columns: list[str], request: Request
) -> tuple[tuple[str, ...], str | None, str | None, str | None]:
    """Feature names in the order wanted, and the columns of labels, ids and groups, of a table's
    `columns`.

    Raises `InputError` for columns that are unnamed, double, missing or too many.
    """
    check_width(where, len(columns))
    if "" in columns:
        raise InputError(
            f"{where}: column {columns.index('') + 1} has no name (perhaps a saved row index); "
            "name it or write the file without it"
        )
    double = [name for name, times in Counter(columns).items() if times > 1]
    if double:
        raise InputError(f"{where}: column names occur twice: {listed(double)}; rename them")
    label = request.label if request.with_labels else None
    if request.with_labels and label is None:
        raise InputError(f"{where}: no label column given; name one of {listed(columns)}")
    if label is not None and label not in columns:
        raise InputError(f"{where}: {no_column(label, columns)}")
    id_column, group = request.id_and_group(where, columns)
    aside = {request.label, request.ignore, id_column, group}
    found = tuple(name for name in columns if name not in aside)
    if not found:
        raise InputError(f"{where}: no feature columns, only {listed(columns)}; add numeric ones")
    found = request.columns.features(where, found, strict=request.features is None)
    return check_names(where, found, request.features), label, id_column, group


def check_width(where: str, columns: int) -> None:
    """Raise `InputError` for a table of more columns than are read."""
    if columns > MOST_COLUMNS:
        raise InputError(
            f"{where}: {columns:,} columns, at most {MOST_COLUMNS:,} of a table are read; write "
            "rows this wide as .npy or Zarr, or reduce their dimension"
        )


def check_names(
    where: str, found: tuple[str, ...], wanted: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The training features `wanted` if `found` has exactly these, in any order."""
    if wanted is None:
        return found
    here, trained = set(found), set(wanted)
    missing = [name for name in wanted if name not in here]
    extra = [name for name in found if name not in trained]
    if missing or extra:
        wrong = [f"missing {listed(missing)}"] if missing else []
        wrong += [f"extra {listed(extra)}"] if extra else []
        raise InputError(
            f"{where}: features differ from training ({len(found)}, trained with {len(wanted)}): "
            f"{'; '.join(wrong)}; give the columns of training"
        )
    return wanted


def array_names(
    where: str, number: int, request: Request
) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Names for those of `number` unnamed features that are wanted, and their places (None: all).

    The names are those of training, else `x0`, `x1`...
    """
    wanted, strict = request.features, request.features is None
    own = tuple(f"x{column}" for column in range(number))
    if strict and request.coding.parse:
        raise InputError(f"{where}: --parse is for text in tables; an array has none, leave it out")
    if wanted is not None and len(wanted) == number:
        return wanted, None
    found = request.columns.features(where, own, strict=strict)
    if strict or found == wanted:
        return found, None if found == own else tuple(own.index(name) for name in found)
    raise InputError(
        f"{where}: {number} features, but training had {len(wanted or ())}; "
        "give the same features in the same order"
    )
