"""How a text file is written: separator, decimal mark, encoding; which sheet of a workbook."""

import codecs
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from storage.errors import InputError
from storage.sources.paths import shown
from storage.sources.texts import parse_hint

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

    def __post_init__(self) -> None:
        sep = self.sep if self.sep is None else SEPARATORS.get(self.sep, self.sep)
        if sep is not None and (len(sep.encode()) != 1 or sep in '\0"\r\n'):
            raise InputError(f"--sep {shown(self.sep)}: must be one character, such as ; or tab")
        if self.decimal not in (".", ",") or self.decimal == sep == ".":
            raise InputError(
                f"--decimal {shown(self.decimal)}: must be . or , and not the separator"
            )
        try:
            found = codecs.lookup(self.encoding)
        except (LookupError, ValueError) as error:
            raise InputError(f"--encoding {shown(self.encoding)}: there is no such one") from error
        if not getattr(found, "_is_text_encoding", True):
            raise InputError(f"--encoding {self.encoding}: not an encoding of text")
        object.__setattr__(self, "sep", sep)
        object.__setattr__(self, "encoding", "utf-8" if found.name in _UTF_8 else found.name)

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

    @classmethod
    def of_json(cls, found: dict[str, Any] | None) -> "Dialect":
        """What `as_json` gave."""
        return cls(**(found or {}))

    def as_json(self) -> dict[str, Any] | None:
        """What differs from the default; None if nothing does."""
        return {n: v for n, v in vars(self).items() if v != getattr(Dialect, n)} or None


PLAIN = Dialect()


def likely_separator(cells: tuple[str, ...]) -> str | None:
    """The separator that a first row seems to have, of which another one made few cells."""
    text = " ".join(cells)
    counts = Counter(mark for mark in text if mark in _LIKELY)
    best = max(_LIKELY, key=lambda mark: counts[mark])
    return best if counts[best] >= len(cells) else None


def separator_hint(cells: tuple[str, ...]) -> str:
    """What to do about a first row of too few columns; empty if it does not look so."""
    mark = likely_separator(cells)
    word = {"\t": "tab"}.get(mark or "", mark)
    return "" if mark is None else f"; its columns look separated by {mark!r}: give --sep '{word}'"


def number_hint(value: str, column: str, decimal: str) -> str:
    """What to do about a cell that is no number."""
    parse = parse_hint(value, column, decimal)
    if _DECIMAL_COMMA.fullmatch(value):
        return f"{parse}if that is a decimal comma, give --decimal ,"
    return f"{parse}leave it out with --exclude {column}"


def encoding_hint(start: bytes) -> str:
    """What to do about a file that is not UTF-8, by its first bytes."""
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "it looks like UTF-16: give --encoding utf-16"
    return "give --encoding cp1252 or another, or save it as UTF-8"
