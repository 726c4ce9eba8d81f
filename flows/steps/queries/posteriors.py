"""The posterior of every class, for those who ask: one group for each part of the scored rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from flows.engine.results import LabelValue
from pipeline.decision.class_rule import Decided
from storage.arrays.groups import Arrays, array, chunk_rows, read_array
from storage.runs.pool import ChunkWriter
from storage.runs.run import Run

PREFIX = "posterior_"
"""What the names of the columns begin with; the class follows."""


def of_two(posterior: npt.NDArray[np.float32]) -> Decided:
    """The posterior of class 1 as that of two classes."""
    chance = np.stack([1 - posterior, posterior], axis=1)
    code = np.broadcast_to(np.arange(2, dtype=np.int32), chance.shape)
    return Decided(code, chance, chance, chance.argmax(axis=1))


def write_posteriors(run: Run, number: int, decided: Decided, n_classes: int) -> list[str]:
    """Write the group `posteriors/NNNNNN` of one part, piece by piece; keys of what was written.

    A class that none of the nearest is given, or that is not among the commonest that the rule
    weighs, has 0.
    """
    rows, path = chunk_rows(4 * n_classes), f"posteriors/{number:06d}"
    n_rows = len(decided.code)
    writer = ChunkWriter(run, path, rows, n_rows, kind="posteriors", true=n_classes)
    written = []
    for i, start in enumerate(range(0, n_rows, rows)):
        code, chance = (column[start : start + rows] for column in (decided.code, decided.chance))
        posterior = np.zeros((len(code), n_classes), np.float32)
        row, place = np.nonzero((chance > 0) & (code >= 0))
        posterior[row, code[row, place]] = chance[row, place]
        written += writer.chunk(i, posterior=posterior)
    return [*written, *writer.finish(n_rows, {})]


def posterior_columns(
    run: Run, classes: Sequence[LabelValue]
) -> tuple[Callable[[slice], Arrays], int]:
    """What reads the posteriors of some rows as a column for each class, and how many rows to ask
    for at once."""
    part_rows = array(run.group("scores"), "row").chunks[0]

    def read(rows: slice) -> Arrays:
        pieces = []
        start = rows.start
        while start < rows.stop:
            part = start // part_rows
            stop = min(rows.stop, (part + 1) * part_rows)
            inside = slice(start - part * part_rows, stop - part * part_rows)
            pieces.append(read_array(run.group(f"posteriors/{part:06d}"), "posterior", inside))
            start = stop
        table = np.concatenate(pieces) if pieces else np.empty((0, len(classes)), np.float32)
        return {f"{PREFIX}{name}": table[:, code] for code, name in enumerate(classes)}

    return read, chunk_rows(4 * len(classes))
