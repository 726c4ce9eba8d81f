"""Labels that are bought: who is asked for them, and where they are kept."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pyarrow as pa

from flows.options.params import AcquireParams
from flows.report.review import BATCH, WANTED, batch_rows
from flows.review.tables import with_ids
from flows.steps.graph.lookup import pick
from pipeline.arrays import Float32, Int64
from pipeline.methods.bought_labels import BoughtLabels
from pipeline.methods.growing_net import grow
from pipeline.methods.marmann import Marmann
from pipeline.methods.marmann import Prototypes as Bought
from storage.answers import Answer, AnswersFile, Asked
from storage.errors import InputError, amount, reason_of
from storage.export import label_names, write_columns
from storage.runs.run import Run
from storage.sources.ids import StoredIds
from storage.sources.values.labels import Label, label_value

DELTA = 0.05
"""Of the guarantee of the printed constants."""
MOST_IN_LINE = 1 << 16
"""Rows of one line of the log, 70 bytes each: a longer line than is read again would be damage."""
Oracle = Callable[[list[int]], Sequence[Label | None]]
"""Rows → their labels, one for each."""


def callable_oracle(name: str) -> Oracle:
    """The function `module:function`; asked, it raises `InputError` for whatever it raises itself,
    an exit included, and for what is no label."""
    module, _, function = name.partition(":")
    try:
        oracle = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:
        raise InputError(
            f"--oracle {name}: cannot be imported ({reason_of(error)}); give module:function on "
            "Python's path"
        ) from error
    if not callable(oracle):
        raise InputError(f"--oracle {name}: is no function; it is called with row numbers")

    def ask(rows: list[int]) -> list[Label | None]:
        try:
            labels = [label_value(raw) for raw in islice(oracle(rows), len(rows) + 1)]
            "".join(map(str, labels)).encode()  # UnicodeEncodeError for what no file can hold
        except (Exception, SystemExit) as error:
            if isinstance(error, MemoryError):
                raise
            raise InputError(
                f"--oracle {name}: {type(error).__name__}: {reason_of(error)}, asked for "
                f"{amount(len(rows), 'row')}; mend it and run again, what was bought is kept"
            ) from error
        if len(labels) != len(rows):
            more = "more than " if len(labels) > len(rows) else ""
            raise InputError(
                f"--oracle {name}: gave {more}{amount(min(len(labels), len(rows)), 'label')} for "
                f"{amount(len(rows), 'row')}; it must give one for each"
            )
        return labels

    return ask


def column_oracle(run: Run, values: tuple[Label, ...]) -> Oracle:
    """The labels that are held back in the pool."""

    def ask(rows: list[int]) -> list[Label]:
        return [values[code] for code in pick(run, "pool", "y", np.array(rows, np.int64)).tolist()]

    return ask


class Waiting(Exception):
    """People are to label these rows first."""

    def __init__(self, rows: list[int]) -> None:
        super().__init__()
        self.rows = rows


@dataclass
class Purchases:
    """Labels by row, each kept before it is used; codes are places among the values met so far."""

    file: AnswersFile
    run: Run
    oracle: Oracle | None
    ids: StoredIds | None = None
    """Of the rows."""
    values: list[Label] = field(default_factory=list)

    def __post_init__(self) -> None:
        labels = {one.label for one in self.file.answers.rows() if one.label is not None}
        self.values = sorted(labels, key=lambda value: (isinstance(value, str), value))

    def known(self) -> dict[int, int]:
        """Code by row of all labels there are."""
        answers = self.file.answers.rows()
        return {one.row: self._code(one.label) for one in answers if one.label is not None}

    def _code(self, value: Label) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def buy(self, x: Float32, neighbor: Int64, left: int, params: AcquireParams) -> Bought | None:
        """Buy up to `left` labels; what answers then, None without any label."""
        if left < 1:
            return None
        labels = BoughtLabels(self.ask, left, self.known())
        begun = [] if self.oracle is None else self._begun(len(x))[:left]
        if begun:
            labels(np.array(begun, np.int64))
        if params.mode == "printed":
            return Marmann(x, labels, DELTA, params.seed).run()
        return grow(x, neighbor, labels, left - len(begun), seed=params.seed)

    def _begun(self, n_rows: int) -> list[int]:
        """Rows without a label of the batch that was asked for last, where a call was interrupted
        within it."""
        return [row for row in batch_rows(self.run) if 0 <= row < n_rows and not self._has(row)]

    def _has(self, row: int) -> bool:
        return self.file.answers.of_row(row).label is not None

    def wait_for(self, rows: list[int]) -> None:
        """Keep which rows' labels the next call begins with."""
        self.run.location.replace(BATCH, json.dumps({"rows": rows}).encode())

    def ask(self, rows: Int64) -> Int64:
        """(row,) codes of the labels of rows; every label is on the disk before it is used."""
        wanted = rows.tolist()
        self.wait_for(wanted)
        if self.oracle is None:
            columns = {"row": pa.array(wanted), "label": pa.nulls(len(wanted), pa.string())}
            write_columns(self.run.location.path(WANTED), with_ids(columns, self.ids))
            raise Waiting(wanted)
        labels = self.oracle(wanted)
        if None in labels:
            raise InputError(
                f"the oracle has no label for row {wanted[labels.index(None)]:,}; what was bought "
                "is kept"
            )
        by_label: dict[Label, list[int]] = {}
        for row, label in zip(wanted, labels, strict=True):
            assert label is not None
            if not self._has(row):  # people's are kept as they answer
                by_label.setdefault(label, []).append(row)
        for label, batch in by_label.items():
            for start in range(0, len(batch), MOST_IN_LINE):
                some = batch[start : start + MOST_IN_LINE]
                given = [Asked(row, None, "wanted", False) for row in some]
                self.file.add(Answer.now(given, label, "oracle"))
        return np.array([self._code(label) for label in labels if label is not None], np.int64)


def write_labels(target: str, desk: Purchases, predicted: Int64) -> None:
    """The label of every row, that of one that was bought as it was given."""
    known, label = desk.known(), predicted.copy()
    bought = np.zeros(len(predicted), np.bool_)
    bought[list(known)] = True
    label[list(known)] = list(known.values())
    columns = {
        "row": pa.array(np.arange(len(predicted))),
        "label": label_names(desk.values).take(pa.array(label)),
        "is_bought": pa.array(bought),
    }
    write_columns(target, with_ids(columns, desk.ids))
