"""Ids, and numbers, times and truth values, that a table holds as text."""

import shlex
from collections.abc import Callable, Iterable
from glob import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyarrow import types

from storage.errors import InputError
from storage.sources.values.labels import Labels

KINDS = ("thousands", "percent", "datetime", "boolean")
DATES = ("%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M")
"""Common formats that are not ISO 8601, to be suggested."""
TRUE, FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
MISSING = frozenset(pyarrow.csv.ConvertOptions().null_values)
"""Texts that are no values where all is text, such as NA, but in ids."""
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_OFFSET = r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])"
_ISO = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_CLOCK}(:[0-5][0-9](\.[0-9]+)?)?{_OFFSET}?)?$"
_ZONE = rf":[0-9.]+{_OFFSET}$"


class Spelling(NamedTuple):
    """How the numbers of a column are written."""

    kind: str
    """One of `KINDS`, or the format of a date as `strptime` has it."""
    decimal: str = "."

    def read(self, text: pa.Array) -> tuple[npt.NDArray[np.float64], int | None]:
        """`(row,)` numbers of a column of text without surrounding spaces, NaN where it is null;
        and the first row whose text is none, if there is one.

        A percentage is a share (12.5 % is 0.125), a time days since 1970 (in UTC, where it has an
        offset), a truth value 1 or 0.
        """
        read = _READ.get(self.kind)
        column = read(text, self.decimal) if read else _days(_date(text, self.kind), 86_400.0)
        bad = pc.and_(column.is_null(), text.is_valid()).index(True).as_py()
        return np.asarray(column, np.float64), None if bad < 0 else bad


def decoded(column: pa.Array) -> pa.Array:
    """A column with what its categories stand for; UUIDs as text."""
    column = column.dictionary_decode() if types.is_dictionary(column.type) else column
    if isinstance(column.type, pa.UuidType):
        return pa.array([one and str(one) for one in column.to_pylist()], pa.string())
    return column


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of what the categories of a column stand for; text of UUIDs."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return pa.string() if isinstance(kind, pa.UuidType) else kind


def plain_texts(column: pa.Array) -> pa.Array:
    """Values of a column as text without surrounding spaces, null where missing or empty."""
    text = pc.utf8_trim_whitespace(decoded(column).cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), None, text)


def present(text: pa.Array, missing: Iterable[str] = MISSING) -> pa.Array:
    """A column of text, null where that is missing."""
    return pc.if_else(pc.is_in(text, pa.array(missing, pa.string())), None, text)


def pointed(text: pa.Array, decimal: str, *, alone: bool) -> pa.Array:
    """Text with a point for its decimal mark; where it has this mark `alone`, what has a point,
    such as 1.000, becomes no number."""
    if decimal == ".":
        return text
    text = pc.replace_substring(text, ".", "_") if alone else text
    return pc.replace_substring(text, decimal, ".")


def plain_values(column: pa.Array) -> list[Any]:
    """Values of a column as Python has them; as text where some are times that it has not: beyond
    the year 9999, or of nanoseconds, which need pandas."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values


def spellings_of(text: pa.Array, decimal: str = ".") -> list[str]:
    """Kinds that all texts of a column can be read as; none where there is no text."""
    text = text.drop_null()
    few = text.slice(0, 100)
    return [
        kind
        for kind in (*KINDS, *DATES)
        if len(text) and all(Spelling(kind, decimal).read(some)[1] is None for some in (few, text))
    ]


def parse_options(column: str, kinds: list[str]) -> str:
    """What to give for a column whose text can be read so; empty for no kinds."""
    alone = escape(column)  # a name may hold marks of patterns
    return " or ".join(f"--parse {shlex.quote(f'{alone}={kind}')}" for kind in kinds)


def parse_option(value: object, column: str, decimal: str = ".") -> str:
    """What to give for a column that holds such a value; empty for one that cannot be parsed."""
    text = plain_texts(pa.array([None if value is None else str(value)], pa.string()))
    return parse_options(column, spellings_of(text, decimal))


def _number(text: pa.Array, decimal: str, end: str = "") -> pa.Array:
    """Numbers with or without separators of thousands, before some `end`; null for other text."""
    point, marks = ("[.]", ",") if decimal == "." else (",", ".")
    marks = f"[{marks}'’ \u00a0\u202f]"
    text = pc.replace_substring_regex(text, "^−", "-")
    whole = f"([1-9][0-9]{{0,2}}({marks}[0-9]{{3}})+|[0-9]+)"  # 0,500 has a decimal comma
    parts = f"{whole}({point}[0-9]*)?|0({marks}[0-9]{{3}})+{point}[0-9]+|{point}[0-9]+"
    pattern = f"^[+-]?({parts})([eE][+-]?[0-9]+)?{end}$"
    there = pc.match_substring_regex(text, pattern)
    bare = pc.replace_substring_regex(text, f"{marks}|{end}$" if end else marks, "")
    bare = pc.replace_substring(bare, ",", ".")
    return pc.if_else(there, bare, None).cast(pa.float64())


def _percent(text: pa.Array, decimal: str) -> pa.Array:
    return pc.divide(_number(text, decimal, "[ \u00a0\u202f]?%"), 100.0)


def _boolean(text: pa.Array, decimal: str) -> pa.Array:
    lower = pc.utf8_lower(text)
    true, false = (pc.is_in(lower, pa.array(words)) for words in (TRUE, FALSE))
    return pc.if_else(pc.or_(true, false), true.cast(pa.float64()), None)


def _datetime(text: pa.Array, decimal: str) -> pa.Array:
    """Days since 1970 of times in ISO 8601; digits below a microsecond are cut off."""
    text = pc.replace_substring_regex(text, r"(\.[0-9]{6})[0-9]+", r"\1")
    text = pc.if_else(pc.match_substring_regex(text, _ISO), text, None)
    day = _date(pc.utf8_slice_codeunits(text, 0, 10), "%Y-%m-%d")
    text = pc.if_else(day.is_valid(), text, None)
    zoned = pc.match_substring_regex(text, _ZONE)
    local = pc.if_else(zoned, None, text).cast(pa.timestamp("us"))
    utc = pc.if_else(zoned, text, None).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return _days(pc.coalesce(local, utc), 86_400e6)


def _date(text: pa.Array, form: str) -> pa.Array:
    """Times of a format; null where they are none of the calendar, such as 31 February, which
    Arrow takes for a day of March."""
    time = pc.strptime(text, form, "s", error_is_null=True)
    plain = [
        pc.replace_substring_regex(pc.utf8_lower(one), r"\b0+([0-9])", r"\1")
        for one in (text, pc.strftime(time, form))
    ]
    return pc.if_else(pc.equal(*plain), time, None)


def _days(time: pa.Array, day: float) -> pa.Array:
    return pc.divide(time.cast(pa.int64()).cast(pa.float64(), safe=False), day)


_READ: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "thousands": _number,
    "percent": _percent,
    "datetime": _datetime,
    "boolean": _boolean,
}


EXACT_IN_SHEET = 10**15
"""Largest whole number that spreadsheet programs keep."""
ID_BYTES = 4096
"""Longest id."""
WHOLE = "^(0|-?[1-9][0-9]{0,17})$"
"""Text of a whole number."""


def check_id_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can be ids."""
    if not can_be_id(kind):
        raise InputError(
            f"{where}: id column {name!r} is {plain_type(kind)}; ids are text or whole numbers: "
            "write them as such"
        )


def can_be_id(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type can be ids."""
    kind = plain_type(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    binary = binary or (types.is_fixed_size_binary(kind) and not types.is_decimal(kind))
    return not (types.is_nested(kind) or types.is_floating(kind) or binary)


def text_ids(column: Any, where: str) -> Labels:
    """`(row,)` object: ids as text, empty where missing.

    Raises `InputError` for ids of more than `ID_BYTES` bytes.
    """
    texts = decoded(column if isinstance(column, pa.Array) else pa.array(column))
    if not types.is_string(texts.type):
        texts = texts.cast(pa.string())
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > ID_BYTES:
        raise InputError(f"{where}: an id of {longest:,} bytes; give short ones")
    return np.asarray(texts.fill_null(""))


def are_whole(ids: Labels) -> bool:
    """Whether all ids are whole numbers as int64 writes them (no leading zeros)."""
    long = f"{WHOLE}|^-?[1-8][0-9]{{18}}$"  # as social networks give them
    return bool(pc.all(pc.match_substring_regex(pa.array(ids, pa.string()), long)).as_py())


def as_column(ids: Labels, whole: bool) -> pa.Array:
    """Ids as they are written to a table: int64 where all are `whole`, else text."""
    texts = pa.array(np.asarray(ids, object), pa.string())
    return texts.cast(pa.int64()) if whole else texts
