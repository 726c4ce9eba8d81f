"""Which columns of a source are features, and which one names its rows."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from storage.errors import InputError
from storage.sources.paths import listed, shown

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

    def features(self, where: str, names: tuple[str, ...], *, strict: bool) -> tuple[str, ...]:
        """Those of some columns that are features, in their order.

        strict : whether a pattern that matches nothing is refused

        Raises `InputError` if none is left.
        """
        for option, patterns in (("--features", self.keep), ("--exclude", self.leave)):
            for pattern in patterns:
                if strict and not any(matches(name, pattern) for name in names):
                    raise InputError(
                        f"{where}: {option} {shown(pattern)} matches no column; columns are "
                        f"{listed(names)}"
                    )
        found = tuple(
            name
            for name in names
            if name not in self.left_out
            and (not self.keep or any(matches(name, pattern) for pattern in self.keep))
            and not any(matches(name, pattern) for pattern in self.leave)
        )
        if names and not found:
            raise InputError(
                f"{where}: no feature columns are left of {listed(names)}; see --features and "
                "--exclude"
            )
        return found


def is_place(name: str) -> bool:
    """Whether a name is that of one place of a column of lists."""
    return _PLACE.search(name) is not None


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a column; that of a column of lists, or of one that is encoded, names
    all its features."""
    stem = _PART.sub("", name)
    return pattern in (name, stem) or fnmatchcase(name, pattern) or fnmatchcase(stem, pattern)


ALL = Columns()
