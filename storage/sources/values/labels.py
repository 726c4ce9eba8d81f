"""Label values, whatever their type, as small integer codes; candidates as tuples of them."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.errors import InputError, amount, listed, shown

Labels = npt.NDArray[Any]
Label = bool | int | float | str
"""A label value as recorded; numbers that are whole are int, and so is their text."""
MOST_CLASSES = 1000
LABEL_BYTES = 4096
"""Longest label, as it is stored."""


_CODE = re.compile("[+-]?0[0-9]")
"""Beginning of text that is no number, but a code."""
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a pair of UTF-16, which no text is written with."""


def label_value(raw: object) -> Label | None:
    """The label a raw value stands for: 1, 1.0 and "1" are one; None if it is missing.

    Missing are None, NaN and strings that are empty or "nan". Nothing is rounded: a number that no
    label can be is the text of it, and so is a code such as "01", so that no two become one label.
    """
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "backslashreplace")
    if isinstance(raw, Decimal):
        raw = f"{raw:f}"
    if isinstance(raw, str):
        text = raw.strip()
        if text == "" or text.lower() == "nan":
            return None
        return text if _CODE.match(text) else number_or_text(text)
    if isinstance(raw, bool | np.bool_):
        return bool(raw)
    if isinstance(raw, Integral):
        return int(raw) if is_int64(int(raw)) else str(int(raw))
    if isinstance(raw, Real):
        value = float(raw)
        if math.isnan(value):
            return None
        return plain_number(value) if value == raw else number_or_text(str(raw))
    return None if raw is None else str(raw)


def folded(text: str) -> str:
    """A label without case, spaces and accents: labels that are alike have one such."""
    plain = unicodedata.normalize("NFKD", text)
    kept = (c for c in plain if not (c.isspace() or "\u0300" <= c <= "\u036f"))
    return "".join(kept).casefold()


def joined_by(counts: Mapping[Label, int]) -> dict[str, str]:
    """The commonest of the texts that are alike, by what they have in common."""
    texts = [value for value in counts if isinstance(value, str)]
    order = sorted(texts, key=lambda text: (counts[text], text))
    return {folded(text): text for text in order}


def are_there(labels: Labels) -> npt.NDArray[np.bool_]:
    """(row,) whether there is a label, as `label_value` says."""
    if labels.dtype.kind in "iub":
        return np.ones(len(labels), np.bool_)
    if labels.dtype.kind == "f":
        return ~np.isnan(labels)
    return each(labels, lambda raw: label_value(raw) is not None).astype(np.bool_)


def each(labels: Labels, of_value: Callable[[Any], object]) -> npt.NDArray[np.object_]:
    """(row,) what a function makes of each value, which it gets once."""
    values = labels.tolist()
    made = {raw: of_value(raw) for raw in set(values)}
    return np.fromiter((made[raw] for raw in values), object, len(values))


def hashes(values: Labels) -> npt.NDArray[np.int64]:
    """(row,) int64 a hash of 63 bits of what each value stands for; -1 where it is missing."""
    return each(values, _hash).astype(np.int64)


def _hash(raw: object) -> int:
    value = label_value(raw)
    if value is None:
        return -1
    text = str(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def as_sets(labels: Labels, separator: str) -> Labels:
    """`(row,)` object: the different candidates of each row as a tuple, in the order they stand in;
    None where there is none.

    labels : `(row,)` tuples, or single values, of which text is divided by the separator if there
        is one
    """
    return each(labels, lambda raw: _candidates(raw, separator))


def _candidates(raw: Any, separator: str) -> tuple[Label, ...] | None:
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "backslashreplace")
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


def number_or_text(text: str) -> Label:
    """The number a text denotes to its last digit, else the text; `1_0`, `inf` and mere digits
    beyond 64 bits are text."""
    try:
        value, exact = float(text), Decimal(text)
    except (ValueError, ArithmeticError):
        return text
    if "_" in text or not math.isfinite(value):
        return text
    if is_int64(exact) and exact == int(exact):
        return int(exact)
    is_rounded = Decimal(repr(value)) != exact or re.fullmatch("[+-]?[0-9]+", text)
    return text if is_rounded else value


def is_int64(value: float | Decimal) -> bool:
    """Whether a number lies where all whole numbers are int64."""
    return -(2**63) <= value < 2**63


def plain_number(value: float) -> Label:
    """int if whole and of 64 bits, else float; infinity as text, for JSON has none."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and is_int64(value) else value


def label_array(values: list[Label | None]) -> Labels:
    """`(n,)` int64 or float64 if all values are such numbers and none is rounded, else object."""
    kinds = {type(value) for value in values}
    if kinds == {int}:
        return np.array(values, np.int64)
    if values and kinds <= {int, float}:
        numbers = np.array(values, np.float64)
        return numbers if numbers.tolist() == values else objects(values)
    return objects(values)


def objects(values: Sequence[Label | None]) -> npt.NDArray[np.object_]:
    """(value,) the values as they are."""
    column = np.empty(len(values), object)
    column[:] = values
    return column


class LabelCodes:
    """Code labels by first appearance, chunk by chunk; `finish` tells the sorted codes."""

    def __init__(self, where: str = "labels", known: Sequence[Label] = ()) -> None:
        """`where`: what to name in messages, the file and column. `known`: the only labels there
        may be, by code; else there may be up to `MOST_CLASSES`."""
        self.where, self.known = where, known
        self._codes = places_of(known)
        self.n_missing = 0
        """Rows without a label."""
        self.first_missing: int | None = None
        """Row of the first of them."""

    @property
    def values(self) -> tuple[Label, ...]:
        """Those known, or seen so far, by first appearance: position is code."""
        return tuple(self.known or self._codes)

    def encode(self, raw: Labels, start: int = 0) -> npt.NDArray[np.int8] | npt.NDArray[np.int16]:
        """Codes `(row,)` of one chunk's labels, by first appearance; -1 where missing. int8, or
        int16 once there are more than 127 values.

        `start` is the row number of the first label, for messages. Raises `InputError` at the
        first value too many.
        """
        labels: list[object] = raw.tolist()
        table = dict.fromkeys(labels, -1)
        for key in table:
            value = label_value(key)
            if value is None:
                continue
            if value not in self._codes and (self.known or len(self._codes) == MOST_CLASSES):
                raise self._refused(value, start + labels.index(key))
            if isinstance(value, str) and len(value) > LABEL_BYTES:
                raise InputError(
                    f"{self.where}: a label of {len(value):,} characters (row "
                    f"{start + labels.index(key)} from 0); give short ones"
                )
            if isinstance(value, str) and _HALF.search(value):
                raise InputError(
                    f"{self.where}: label {shown(value)} (row {start + labels.index(key)} from 0) "
                    "holds half a character, which no file can; correct it"
                )
            table[key] = self._codes.setdefault(value, len(self._codes))
        codes: npt.NDArray[np.int8] | npt.NDArray[np.int16]
        codes = np.fromiter(map(table.__getitem__, labels), np.int16, len(labels))
        if len(self._codes) <= 127:
            codes = codes.astype(np.int8)
        missing = int(np.count_nonzero(codes < 0))
        if missing and self.first_missing is None:
            self.first_missing = start + int((codes < 0).argmax())
        self.n_missing += missing
        return codes

    def merge(self, after: "LabelCodes") -> npt.NDArray[np.int16]:
        """(value + 1,) the codes here of the values that another instance saw in the rows after
        these, and -1 for no label. Raises `InputError` where there are then too many."""
        codes = [self._codes.setdefault(value, len(self._codes)) for value in after.values]
        if len(self._codes) > MOST_CLASSES:
            raise InputError(f"{self.where}: more than {MOST_CLASSES:,} values")
        if self.first_missing is None:
            self.first_missing = after.first_missing
        self.n_missing += after.n_missing
        return np.array([*codes, -1], np.int16)

    def finish(self) -> tuple[tuple[Label, ...], npt.NDArray[np.integer]]:
        """The values in their final order, and `remap` `(class,)`: int8 for two values, uint8 for
        up to 256, uint16 beyond.

        The final code of a label is its position among the sorted values, and
        `remap[code by first appearance]`. Numbers are sorted by value and come before text;
        text is sorted without regard to case, so that no/yes, false/true, negative/positive,
        n/y and f/t have the first as 0. Raises `InputError` if labels are missing or all of
        one class.
        """
        if self.n_missing:
            raise InputError(
                f"{self.where}: {amount(self.n_missing, 'label is', 'labels are')} missing; "
                f"first at row {self.first_missing} (from 0); fill them in or drop these rows, "
                "or train with --unlabeled predict"
            )
        if len(self._codes) < 2:
            what = f"all labels are {shown(self.values[0])}" if self._codes else "no labels"
            raise InputError(f"{self.where}: {what}; two classes are needed to learn from")
        ordered = tuple(sorted(self._codes, key=sort_key))
        place = {value: code for code, value in enumerate(ordered)}
        wide = np.uint8 if len(ordered) <= 256 else np.uint16
        kind = np.int8 if len(ordered) == 2 else wide
        return ordered, np.array([place[value] for value in self._codes], kind)

    def _refused(self, value: Label, row: int) -> InputError:
        """What is said of a label that is one too many, or none of those known."""
        if self.known:
            header = "" if row else "; if it is a header, give a label for each row below it"
            return InputError(
                f"{self.where}: label {shown(value)} (row {row} from 0) is none of the training's "
                f"classes {listed(self.known)}; leave such rows out of scores and labels{header}"
            )
        return InputError(
            f"{self.where}: labels must be at most {MOST_CLASSES:,} values, found "
            f"{listed([*self._codes, value])} (one too many at row {row} (from 0)); merge rare ones"
        )


def places_of(values: Sequence[Label]) -> dict[Label, int]:
    """Place of each label, and of the texts that files without booleans have for those."""
    place: dict[Label, int] = {}
    for code, value in enumerate(values):
        if isinstance(value, bool):
            place |= dict.fromkeys((str(value), str(value).lower(), str(value).upper()), code)
        place[value] = code
    return place


def sort_key(value: Label) -> tuple[bool, float, str, str]:
    """Numbers by value, then text without regard to case."""
    if isinstance(value, str):
        return True, 0.0, value.casefold(), value
    return False, value, "", ""
