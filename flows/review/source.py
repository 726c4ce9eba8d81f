"""The table that was trained on, shown as it stands for as long as it is there and the same."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Self

from flows.report.rows import Shown
from flows.scorings.scored import Trained
from pipeline.arrays import Int64
from storage.errors import KnnoiseError
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
