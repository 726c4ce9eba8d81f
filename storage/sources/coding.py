"""How columns that are no plain numbers become features: learned on training rows, kept with the
run, applied to every row that is scored."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Coding:
    """Categories of text columns, and what becomes of gaps."""

    categories: dict[str, list[str]] = field(default_factory=dict)
    """Values of each column that is encoded; each is a feature `column=value`, 1 or 0."""
    fills: dict[str, float] = field(default_factory=dict)
    """Value for the gaps of each feature."""
    drop: bool = False
    """Whether rows with gaps are left out."""

    @classmethod
    def of_json(cls, found: dict[str, Any] | None) -> "Coding":
        """What `as_json` gave."""
        return cls(**(found or {}))

    def as_json(self) -> dict[str, Any] | None:
        """None if nothing is coded."""
        return None if self == PLAIN_NUMBERS else dict(vars(self))

    def fills_of(self, names: tuple[str, ...]) -> npt.NDArray[np.float32] | None:
        """(feature,) values for gaps, NaN where there is none; None where no feature has one."""
        if not self.fills:
            return None
        return np.array([self.fills.get(name, np.nan) for name in names], np.float32)

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
