"""Labels that are sets of candidates: delimited text, lists and masks read as tuples of values, and
tuples as bit masks."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from storage.errors import InputError, listed
from storage.sources.values.labels import MOST_CLASSES, Label, Labels, label_value, sort_key

WORDS = 16
"""Words of 64 candidates to a row: room for all classes."""
_BITS = 64


def as_sets(labels: Labels, separator: str) -> Labels:
    """`(row,)` object: the different candidates of each row as a tuple, in the order they stand in;
    None where there is none.

    labels : `(row,)` tuples, or single values, of which text is divided by the separator if there
        is one
    """
    values = labels.tolist()
    table = {raw: _candidates(raw, separator) for raw in set(values)}
    return np.fromiter((table[raw] for raw in values), object, len(values))


def _candidates(raw: Any, separator: str) -> tuple[Label, ...] | None:
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "replace")
    parts = raw.split(separator) if isinstance(raw, str) and separator else (raw,)
    values = map(label_value, raw if isinstance(raw, tuple) else parts)
    return tuple(dict.fromkeys(value for value in values if value is not None)) or None


def sets_of_mask(mask: npt.NDArray[np.bool_]) -> Labels:
    """`(row,)` object: the places that are true in each row of `(row, class)`, as a tuple."""
    packed = np.ascontiguousarray(np.packbits(mask, axis=1))
    _, first, place = np.unique(
        packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    sets = [tuple(np.flatnonzero(mask[row]).tolist()) for row in first]
    return np.fromiter(sets, object, len(sets))[place.ravel()]


class CandidateCodes:
    """Code candidate sets as bit masks, chunk by chunk; `finish` tells what the bits mean. With
    `classes` no other candidate is known, and bit c is class c."""

    def __init__(self, where: str, classes: Sequence[Label] | None = None) -> None:
        self.where = where
        """What to name in messages."""
        self.classes = classes
        self._codes: dict[Label, int] = {value: code for code, value in enumerate(classes or ())}
        self._rows: list[int] = [0] * len(self._codes)
        """Rows with each candidate, by code."""
        self.n_missing = 0
        self.first_missing: int | None = None

    def encode(self, sets: Labels, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """`(row, WORDS)` masks of one chunk's sets, `as_sets`: the value that appears as number c
        is bit c % 64 of word c // 64.

        rows : `(row,)` their numbers, for messages

        Raises `InputError` at the first value too many, or that is none of the classes.
        """
        values = sets.tolist()
        kinds: dict[Any, int] = {}
        kind = np.fromiter((kinds.setdefault(one, len(kinds)) for one in values), np.int64)
        counts = np.bincount(kind, minlength=len(kinds)).tolist()
        masks = np.zeros((len(kinds), WORDS), np.uint64)
        for one, at in kinds.items():
            if one is None:
                self._missing(counts[at], int(rows[(kind == at).argmax()]))
                continue
            for value in one:
                if self.classes is not None and value not in self._codes:
                    self._unknown(value, int(rows[(kind == at).argmax()]))
                code = self._codes.setdefault(value, len(self._codes))
                if code == MOST_CLASSES:
                    self._refuse(int(rows[(kind == at).argmax()]))
                if code == len(self._rows):
                    self._rows.append(0)
                self._rows[code] += counts[at]
                masks[at, code // _BITS] |= np.uint64(1) << np.uint64(code % _BITS)
        return masks[kind]

    def finish(self) -> tuple[tuple[Label, ...], list[int], list[int]]:
        """The values in the order of their final codes, as for single labels; the final code of
        each bit; and the rows with each value, by final code.

        Raises `InputError` if rows have no candidate, or all the same one.
        """
        if self.n_missing:
            known = "fill them in, or score without this column and --candidates"
            new = "fill them in or drop these rows, or give --unlabeled predict"
            raise InputError(
                f"{self.where}: {self.n_missing:,} rows have no candidate; first at row "
                f"{self.first_missing} (from 0); {new if self.classes is None else known}"
            )
        if self.classes is not None:
            return tuple(self.classes), list(range(len(self.classes))), self._rows
        ordered = tuple(sorted(self._codes, key=sort_key))
        if len(ordered) < 2:
            raise InputError(
                f"{self.where}: the only candidate is {listed(list(ordered))}; two classes are "
                "needed to learn from"
            )
        place = {value: code for code, value in enumerate(ordered)}
        rows = [self._rows[self._codes[value]] for value in ordered]
        return ordered, [place[value] for value in self._codes], rows

    def _missing(self, count: int, row: int) -> None:
        self.n_missing += count
        if self.first_missing is None:
            self.first_missing = row

    def _unknown(self, value: Label, row: int) -> NoReturn:
        raise InputError(
            f"{self.where}: row {row} (from 0) has the candidate {value!r}, which is no class of "
            f"the training ({listed(list(self._codes))}); correct it, or score without "
            "this column and --candidates"
        )

    def _refuse(self, row: int) -> None:
        raise InputError(
            f"{self.where}: candidates are more than {MOST_CLASSES:,} values, such as "
            f"{listed(list(self._codes)[-3:])} (the last at row {row} (from 0)); are these labels, "
            "and is the separator right?"
        )
