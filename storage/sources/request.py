"""What is asked of a source, and which of its columns that means."""

from collections import Counter
from dataclasses import dataclass

from storage.errors import InputError

from .paths import listed


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


def choose_columns(
    where: str, columns: list[str], request: Request
) -> tuple[tuple[str, ...], str | None]:
    """Feature names in the order wanted, and the label column, of a table's `columns`.

    Raises `InputError` for columns that are unnamed, double, missing or too many.
    """
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
        raise InputError(f"{where}: no column {label!r}; columns are {listed(columns)}")
    aside = {request.label, request.ignore}
    found = tuple(name for name in columns if name not in aside)
    if not found:
        odd = any(mark in columns[0] for mark in ";|\t")
        remedy = "separate the columns by commas" if odd else "add numeric ones"
        raise InputError(f"{where}: no feature columns, only {listed(columns)}; {remedy}")
    return check_names(where, found, request.features), label


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


def array_names(where: str, number: int, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    """Names for `number` unnamed features: those of training, else `x0`, `x1`..."""
    if wanted is None:
        return tuple(f"x{column}" for column in range(number))
    if len(wanted) != number:
        raise InputError(
            f"{where}: {number} features, but training had {len(wanted)}; "
            "give the same features in the same order"
        )
    return wanted
