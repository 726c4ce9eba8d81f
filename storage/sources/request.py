"""What is asked of a source: how its text is written, which of its columns are features, labels,
ids and groups, and how what is no plain number becomes one."""

import codecs
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.errors import InputError, listed, no_column, shown
from storage.sources.values.labels import each, folded
from storage.sources.values.texts import Spelling, parse_option

_PLACE = re.compile(r"\[\d+\]$")
_PART = re.compile(r"(\[\d+\]|=.*)$", re.S)


@dataclass(frozen=True)
class Columns:
    """A choice of columns, by name or by pattern (`*`, `?` and `[…]` as in file names)."""

    id: str | None = None
    """Column of ids: no feature, carried to the outputs."""
    keep: tuple[str, ...] = ()
    """Patterns of the features; all columns where there are none."""
    leave: tuple[str, ...] = ()
    """Patterns of columns that are no features."""
    left_out: tuple[str, ...] = ()
    """Columns that are no features, by name alone; whether they are there does not matter."""
    id_needed: bool = True
    """Whether a source without the column of ids is refused."""
    group: str | None = None
    """Column that says whose label each is: no feature."""
    together: str | None = None
    """Column that says which rows belong together: no feature."""
    encodable: bool = True
    """Whether columns of text can be encoded, if these are asked for."""

    def features(self, where: str, names: tuple[str, ...], *, strict: bool) -> tuple[str, ...]:
        """Those of some columns that are features, in their order.

        strict : whether a pattern that matches nothing is refused

        Raises `InputError` if none is left.
        """
        called = defaultdict[str, set[str]](set)
        for name in names:
            called[name].add(name)
            called[stem(name)].add(name)
        meant = {"--features": set[str](), "--exclude": {*self.left_out}}
        for option, patterns in (("--features", self.keep), ("--exclude", self.leave)):
            for pattern in patterns:
                # a column that is called so, `a*` perhaps, is meant alone
                matched = called.get(pattern) or {n for n in names if matches(n, pattern)}
                if strict and not matched:
                    parts = [part.strip() for part in pattern.split(",")]
                    several = len(parts) > 1 and all(part in called for part in parts)
                    how = "; several are given one by one, not with commas" if several else ""
                    raise InputError(
                        f"{where}: {option} {shown(pattern)} matches no column{how}; columns are "
                        f"{listed(names)}"
                    )
                meant[option] |= matched
        remain = (meant["--features"] if self.keep else {*names}) - meant["--exclude"]
        chosen = tuple(name for name in names if name in remain)
        if names and not chosen:
            raise InputError(
                f"{where}: no feature columns are left of {listed(names)}; see --features and "
                "--exclude"
            )
        return chosen


def is_place(name: str) -> bool:
    """Whether a name is that of one place of a column of lists."""
    return _PLACE.search(name) is not None


def stem(name: str) -> str:
    """The column that a feature is of, where several are."""
    return _PART.sub("", name)


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a column; that of a column of lists, or of one that is encoded, names
    all its features."""
    column = stem(name)
    return pattern in (name, column) or fnmatchcase(name, pattern) or fnmatchcase(column, pattern)


ALL = Columns()


SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}
"""Words for separators that are hard to type."""
_UTF_8 = ("utf-8", "utf-8-sig")
_LIKELY = ";\t|,"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9.]*,[0-9]+([eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """How cells of a text file are told apart and read.

    Raises `InputError` for a separator, a decimal mark or an encoding that cannot be one.
    """

    sep: str | None = None
    """One character, or a word of `SEPARATORS`; None: a tab in `.tsv`, else a comma."""
    decimal: str = "."
    """Decimal mark of the features: `.` or `,`."""
    encoding: str = "utf-8"
    """Any text encoding that Python knows; UTF-8 with or without its mark."""
    sheet: str | None = None
    """Sheet of a workbook; None: the first."""
    fixed: bool = False
    """Whether files are written so, as no option says otherwise."""

    def __post_init__(self) -> None:
        sep = self.sep if self.sep is None else SEPARATORS.get(self.sep, self.sep)
        if sep is not None and (len(sep.encode()) != 1 or sep in '\0"\r\n'):
            raise InputError(f"--sep {shown(self.sep)}: must be one character, such as ; or tab")
        if self.decimal not in (".", ",") or self.decimal == sep == ".":
            raise InputError(
                f"--decimal {shown(self.decimal)}: must be . or , and not the separator"
            )
        try:
            codec = codecs.lookup(self.encoding)
        except (LookupError, ValueError) as error:
            raise InputError(f"--encoding {shown(self.encoding)}: there is no such one") from error
        if not getattr(codec, "_is_text_encoding", True):
            raise InputError(f"--encoding {self.encoding}: not an encoding of text")
        object.__setattr__(self, "sep", sep)
        object.__setattr__(self, "encoding", "utf-8" if codec.name in _UTF_8 else codec.name)

    @property
    def codec(self) -> str:
        """The encoding as Python opens it, a mark at the beginning left out."""
        return "utf-8-sig" if self.encoding == "utf-8" else self.encoding

    def separator(self, name: str) -> str:
        """The separator of a file of this name."""
        sep = self.sep or ("\t" if ".tsv" in name.lower() else ",")
        if sep == self.decimal and self.sep is None:
            raise InputError(
                f"{name}: its separator is a comma as the decimal mark is; give --sep ',' where "
                "its numbers are in quotes, or its own, such as --sep ';'"
            )
        return sep

    def as_json(self) -> dict[str, Any] | None:
        """What differs from the default; None if nothing does."""
        return {n: v for n, v in vars(self).items() if v != getattr(Dialect, n)} or None


PLAIN = Dialect()


def likely_separator(cells: tuple[str, ...]) -> str | None:
    """The separator that seems to divide the few cells of a first row; None if it does not look
    so."""
    counts = Counter(mark for mark in " ".join(cells) if mark in _LIKELY)
    best = max(_LIKELY, key=lambda mark: counts[mark])
    return best if counts[best] >= len(cells) else None


def separator_hint(cells: tuple[str, ...], dialect: Dialect = PLAIN) -> str:
    """What to do about a first row that another separator seems to divide; empty if none does."""
    best = likely_separator(cells)
    if best is None:
        return ""
    word = "tab" if best == "\t" else best
    remedy = "save it with commas, or as .xlsx" if dialect.fixed else f"give --sep '{word}'"
    return f"; its columns look separated by {best!r}: {remedy}"


Use = Literal["train", "score", "buy"]
"""What rows are read for: to learn from, for a training whose columns cannot be chosen any more, or
to buy labels of them, where text is not encoded."""


def number_hint(value: str, column: str, decimal: str, use: Use) -> str:
    """What to do about a cell that is no number."""
    if _DECIMAL_COMMA.fullmatch(value):
        parse = "" if use == "score" else _given(parse_option(value, column, decimal))
        return f"{parse}if that is a decimal comma, give --decimal ,"
    if decimal == "," and _DECIMAL_COMMA.fullmatch(value.replace(".", ",")):
        return "write all numbers of the file with one decimal mark"
    return column_hint(value, column, use, decimal)


def _given(option: str) -> str:
    """An option as a remedy before others; empty for none."""
    return f"give {option}, or " if option else ""


def column_hint(value: object, column: str, use: Use, decimal: str = ".") -> str:
    """What to do about a column that holds such a value, which is no number."""
    option = parse_option(value, column, decimal)
    if use == "score":
        again = f", or train with {option}" if option else ""
        return f"correct it: training had numbers there{again}"
    hint = _given(option)
    text = isinstance(value, str) and (not option or "=boolean" in option)  # others may have a z
    if text and use == "train":
        hint = f"if these are categories, give --encode one-hot, else {hint}"
    return f"{hint}leave it out with --exclude {shlex.quote(column)}"


@dataclass(frozen=True)
class Coding:
    """Categories of text columns, and what becomes of gaps."""

    categories: dict[str, list[str]] = field(default_factory=dict)
    """Values of each column that is encoded; each is a feature `column=value`, 1 or 0."""
    fills: dict[str, float] = field(default_factory=dict)
    """Value for the gaps of each feature."""
    drop: bool = False
    """Whether rows with gaps are left out."""
    parse: dict[str, str] = field(default_factory=dict)
    """How numbers are written in columns of text, by name or pattern; the first that fits."""
    joined: dict[str, str] = field(default_factory=dict)
    """The label that stands for all texts alike, by what `folded` leaves of them."""

    @classmethod
    def of_json(cls, content: dict[str, Any] | None) -> "Coding":
        """What `as_json` gave."""
        return cls(**(content or {}))

    def as_json(self) -> dict[str, Any] | None:
        """None if nothing is coded."""
        content = dict(vars(self))
        for name in ("parse", "joined"):  # runs without are as they were before there was such
            if not content[name]:
                del content[name]
        return None if self == PLAIN_NUMBERS else content

    def join(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(row,) labels, those that are alike as one."""
        if not self.joined or labels.dtype.kind != "O":
            return labels
        joined = self.joined
        return each(labels, lambda v: joined.get(folded(v), v) if isinstance(v, str) else v)

    def spelling(self, name: str, decimal: str) -> Spelling | None:
        """How the numbers of a column are written; None for plain numbers."""
        kind = self._kind(name)
        return None if kind is None else Spelling(kind, decimal)

    def _kind(self, name: str) -> str | None:
        return next((kind for pattern, kind in self.parse.items() if matches(name, pattern)), None)

    def written(self, name: str, value: float, digits: int = 4) -> str:
        """A value of a feature for people: a date or a percentage where the column has such, else
        so many digits of a fraction, and all of what is longer before its point."""
        kind = self._kind(name) or ""
        if kind == "percent":
            return f"{100 * value:.4g} %"
        if kind == "datetime" or "%" in kind:
            return str(np.datetime64("1970-01-01") + round(value // 1))
        whole = 10**digits <= abs(value) < 1e15 or float(value).is_integer()
        return f"{value:.0f}" if whole else f"{value:.{digits}g}"

    def fills_of(self, names: tuple[str, ...]) -> npt.NDArray[np.float32] | None:
        """(feature,) values for gaps, NaN where there is none; None where no feature has one."""
        if not self.fills:
            return None
        return np.array([self.fills.get(name, np.nan) for name in names], np.float32)

    @property
    def encoded(self) -> dict[str, tuple[str, str]]:
        """The column and the value that each feature of an encoded column stands for, by name."""
        return {
            f"{c}={value}": (c, value) for c, values in self.categories.items() for value in values
        }

    def groups(self, names: tuple[str, ...]) -> dict[str, list[int]]:
        """Places of the features of each encoded column."""
        place = {name: i for i, name in enumerate(names)}
        return {
            column: [place[f"{column}={value}"] for value in values if f"{column}={value}" in place]
            for column, values in self.categories.items()
        }


PLAIN_NUMBERS = Coding()


@dataclass
class Gaps:
    """Gaps that were filled and rows that were left out, counted once each."""

    filled: int = 0
    dropped: int = 0
    """Rows with a gap."""
    other: int = 0
    """Rows without a label where those with one are wanted, or the other way round."""
    until: int = 0
    """Rows of the source that were counted."""
    features: npt.NDArray[np.uint64] | None = None
    """A hash of the features of each id of the annotations, None before any."""
    repeated: int = 0
    """Lines that give the features of a row again."""


MOST_COLUMNS = 1 << 15
"""Columns of a table: readers of CSV and Parquet take some 10 KB of memory for each."""
MOST_FEATURES = 1 << 16
"""Features of an array."""


class Beside(NamedTuple):
    """Columns or arrays that are read besides features and labels; None for what is not."""

    id: str | None = None
    group: str | None = None
    """Which says whose label each is."""
    together: str | None = None
    """Which says what rows belong together."""


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

    @property
    def use(self) -> Use:
        if self.features is not None:
            return "score"
        return "train" if self.columns.encodable else "buy"

    def beside(self, where: str, names: Sequence[str]) -> Beside:
        """What is read besides among some names.

        Raises `InputError` for one that is not there, or is that of something else.
        """
        own, group, together = self.columns.id, self.columns.group, self.columns.together
        if own not in names and not self.columns.id_needed:
            own = None
        taken = {self.label: "labels"} if self.with_labels else {}
        for column, option, what, meant in (
            (own, "--id-column", "ids", "names the rows"),
            (group, "--by", "groups of --by", "says whose labels they are"),
            (together, "--together", "", "rows which belong together have alike"),
        ):
            if column is None:
                continue
            if column not in names:
                raise InputError(
                    f"{where}: {option} {shown(column)} is not there; columns are {listed(names)}; "
                    "name one of them, or leave it out"
                )
            if column in taken:
                raise InputError(
                    f"{where}: {option} {shown(column)} is the column of the {taken[column]}; name "
                    f"the one that {meant}"
                )
            taken[column] = what
        return Beside(own, group, together)


def choose_columns(
    where: str, columns: list[str], request: Request
) -> tuple[tuple[str, ...], str | None, Beside]:
    """Feature names in the order wanted, the column of labels, and those beside, of a table's
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
        raise InputError(
            f"{where}: no label column given; give --label-column, one of {listed(columns)}"
        )
    if label is not None and label not in columns:
        raise InputError(f"{where}: {no_column(label, columns)}")
    beside = request.beside(where, columns)
    aside = {request.label, request.ignore, *beside}
    features = tuple(name for name in columns if name not in aside)
    if not features:
        raise InputError(f"{where}: no feature columns, only {listed(columns)}; add numeric ones")
    features = request.columns.features(where, features, strict=request.features is None)
    return check_names(where, features, request.features), label, beside


def check_width(where: str, columns: int) -> None:
    """Raise `InputError` for a table of more columns than are read."""
    if columns > MOST_COLUMNS:
        raise InputError(
            f"{where}: {columns:,} columns, at most {MOST_COLUMNS:,} of a table are read; write "
            "rows this wide as .npy or Zarr, or reduce their dimension"
        )


def check_names(
    where: str, present: tuple[str, ...], wanted: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The training features `wanted` if `present` has exactly these, in any order."""
    if wanted is None:
        return present
    here, trained = set(present), set(wanted)
    missing = [name for name in wanted if name not in here]
    extra = [name for name in present if name not in trained]
    if missing or extra:
        wrong = [f"missing {listed(missing)}"] if missing else []
        wrong += [f"extra {listed(extra)}"] if extra else []
        others = ", or leave the others out, each by --exclude"
        if len(extra) == 1:
            others = f", or give --exclude {shlex.quote(extra[0])}"
        raise InputError(
            f"{where}: features differ from training ({len(present)}, trained with {len(wanted)}): "
            f"{'; '.join(wrong)}; give the columns of training alone{'' if missing else others}"
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
    chosen = request.columns.features(where, own, strict=strict)
    if strict or chosen == wanted:
        return chosen, None if chosen == own else tuple(own.index(name) for name in chosen)
    raise InputError(
        f"{where}: {number} features, but training had {len(wanted or ())}; "
        "give the same features in the same order"
    )
