"""What is shown of rows: the table that was trained on, as it stands for as long as it is there and
the same, a table that somebody gave, or features."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from flows.options.params import Paged
from flows.report.model import was_in_memory
from flows.report.rows import Features, Shown, shown_of
from flows.scorings.scored import Trained
from pipeline.arrays import Int64
from storage.errors import InputError, KnnoiseError
from storage.runs.run import Run
from storage.sources.base import unchanged
from storage.sources.opening import TABLES

LOOK_SECONDS = 5.0
"""Between looks whether the table is there; more where a look takes long."""
PATIENCE = 20
"""Times that a look takes until the next."""


@dataclass
class SourceTable:
    """The rows of a table that a review shows; those that were read are kept if it goes."""

    trained: Trained
    path: str
    rows: Int64
    shown: Shown | None = None
    trouble: str = ""
    """What there is to say of the table; empty while it is what was trained on."""
    _due: float = 0.0
    _looking: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, trained: Trained, rows: Int64) -> Self | None:
        """The table of a training, looked at once; None where it was trained on something else.

        rows : numbers of those to show
        """
        config = trained.report.config
        if config.health is None or config.source.kind not in TABLES:
            return None
        table = cls(trained, config.health.source, rows)
        table.look()
        return table

    def look(self) -> None:
        """See whether the table is there and the same, if that is due; read it where it was not
        before."""
        if not self._looking.acquire(blocking=False):
            return  # somebody does
        try:
            start = time.monotonic()
            if start < self._due:
                return
            try:
                self._read()
                self.trouble = ""
            except KnnoiseError as error:
                instead = "Rows are shown as they were read from it before."
                if self.shown is None:
                    instead = (
                        "Features are shown until it is back; --show FILE takes another table."
                    )
                self.trouble = f"{error}. {instead}"
                if self.shown is None and was_in_memory(self.path):
                    self.trouble = (
                        "The table that was trained on was in memory. Features are shown; --show "
                        "FILE takes a table with the same rows."
                    )
            end = time.monotonic()
            self._due = end + max(LOOK_SECONDS, PATIENCE * (end - start))
        finally:
            self._looking.release()

    def _read(self) -> None:
        source = self.trained.stored(self.path, lambda as_then: as_then)
        if self.shown is None:
            n_rows = self.trained.report.n_source_rows
            shown = Shown(self.path, None, n_rows, None, source.dialect)
            with unchanged(self.trained.recorded(), source):
                shown.read(self.rows)
            self.shown = shown


@dataclass(frozen=True)
class Exhibit:
    """What is shown of rows."""

    features: Features
    names: list[str]
    given: Shown | None
    """A table that somebody gave."""
    source: SourceTable | None = None
    """Else the one that was trained on."""

    @property
    def shown(self) -> Shown | None:
        """The table whose rows are shown; None where there is none now."""
        return self.source.shown if self.given is None and self.source is not None else self.given

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a file that are shown in place of features."""
        pictures = self.features.shape is not None
        return () if self.shown is None or pictures else self.shown.columns

    def read(self, rows: Int64) -> None:
        """Read what a table that somebody gave has of rows that are about to be shown; -1 in empty
        places. Raises `InputError` where it is not as it should be."""
        if self.given is not None:
            self.given.read(rows[rows >= 0])

    def of(self, rows: list[int], *, with_features: bool) -> dict[int, dict[str, Any]]:
        """Content by row."""
        values = self.features.of(rows) if with_features and not self.columns else {}
        return {
            row: {
                **values.get(row, {}),
                **({} if self.shown is None else self.shown.of(row)),
            }
            for row in rows
        }


def exhibit_of(
    run: Run,
    n_rows: int,
    params: Paged,
    source: SourceTable | None = None,
    place: Mapping[int, int] | None = None,
) -> Exhibit:
    """What is shown of rows; `InputError` where they cannot be shown as asked.

    source : shows the rows where nobody asks for something else
    place : of a row in the pool, where rows of the source were left out
    """
    shape, names = None, run.config()["feature_names"]
    if params.image_shape is not None:
        height, width = map(int, params.image_shape.split("x"))
        if height * width != len(names):
            raise InputError(
                f"--image-shape {params.image_shape}: {height * width:,} pixels, rows have "
                f"{len(names):,} features"
            )
        shape = height, width
    shown = shown_of(run, n_rows, params.show, params.show_column, params.image_root)
    return Exhibit(Features(run, place, shape), names, shown, source)
