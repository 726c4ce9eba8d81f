"""Cleaning: what a run was trained on, without its suspect labels, for other models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from flows.intake.labels import POSTERIOR, WEIGHT
from flows.options.params import CleanParams, as_keywords
from flows.orchestration.run_folders import latest
from flows.report.model import Frozen
from flows.scorings.scored import Trained
from pipeline.arrays import Int64
from pipeline.decision.soft import soft_labels
from storage.arrays.groups import Arrays, array, read_array
from storage.errors import InputError, amount
from storage.export import FLAT, check_target, ending, label_names, write_tables
from storage.redaction import bare
from storage.runs.run import below
from storage.sources.base import Source, unchanged
from storage.sources.formats.tables import is_list
from storage.sources.stored import as_stored, stored_cells, stored_schema

FEWEST_WRONG = 0.01
"""Share of wrong labels that the interval must lie above, else cleaning is doubtful."""


class CleanReport(Frozen):
    """What a cleaning wrote."""

    how: str
    n_rows: int
    """Rows of the source."""
    n_written: int
    n_suspect: int
    """Rows whose label is suspect."""
    n_left_out: int
    """Rows that the training had left out: without a label, or with gaps."""
    label: str
    """Column of the labels."""
    label_added: bool = False
    """Whether the source has none of them."""
    classes: list[Any]
    n_by_class: list[int]
    """Written rows by label."""
    run: str
    out: str
    doubt: str | None = None
    """Why a model may learn no better from it; None where nothing speaks against it."""


@as_keywords(CleanParams, name="clean")
def run_clean(params: CleanParams) -> dict[str, Any]:
    """Write the source of a finished training without its suspect labels: its own columns and
    types, streamed.

    Returns:
        the report: rows, those written and those that are suspect, and the column of the labels

    Raises:
        storage.errors.KnnoiseError: InputError or StorageError, each with a message for people.
    """
    check_target(params.out, inputs=[params.source])
    trained = Trained.of(latest(params.run))
    trained.check_apart(params.out)
    if trained.report.config.parameters.get("annotations") is not None:
        raise InputError(
            f"{params.run}: trained on several labels per row, whose likeliest is in "
            "consensus.parquet; put its column consensus_label beside the rows, and train on that"
        )
    source = as_stored(trained.stored(params.source, params.dialect))
    trained.run.check(below("verdicts"))
    cleaning = _Cleaning(trained, source, params)
    write_tables(params.out, cleaning.schema, cleaning.tables())
    return cleaning.report().as_json()


class _Verdicts:
    """The verdicts on a training's rows, read on, a chunk at a time."""

    def __init__(self, trained: Trained) -> None:
        self._group = trained.run.group("labels")
        self._of = trained.report.verdicts()
        self._at, self._buffered = 0, self._read(0)

    def _read(self, at: int) -> Arrays:
        rows = slice(at, at + array(self._group, "row").chunks[0])
        read = {name: read_array(self._group, name, rows) for name in ("row", *self._of.columns)}
        read["given_label"] = read["given_label"].astype(np.int64)
        return {**read, "likely_label": self._of.likely(read).astype(np.int64)}

    def before(self, stop: int) -> Arrays:
        """Those on the next rows of the source, up to `stop`."""
        pieces = []
        while True:
            cut = int(np.searchsorted(self._buffered["row"], stop))
            pieces.append({name: column[:cut] for name, column in self._buffered.items()})
            self._buffered = {name: column[cut:] for name, column in self._buffered.items()}
            self._at += cut
            if len(self._buffered["row"]) or self._at == array(self._group, "row").shape[0]:
                break
            self._buffered = self._read(self._at)
        return {name: np.concatenate([one[name] for one in pieces]) for name in pieces[0]}


class _Cleaning:
    """One source, table by table, and what became of its rows."""

    def __init__(self, trained: Trained, source: Source, params: CleanParams) -> None:
        """Raise `InputError` where the file wanted cannot hold the columns of the source."""
        report, stored = trained.report, stored_schema(source)
        end = ending(params.out, report.n_rows)  # cells of CSV or of a sheet hold no such values
        deep = [f for f in stored if types.is_nested(f.type) or "binary" in str(f.type)]
        if deep and end in FLAT:
            values = "lists" if is_list(deep[0].type) else deep[0].type
            raise InputError(
                f"{params.out}: column {deep[0].name!r} holds {values}; name it .parquet"
            )
        own = report.config.label_column
        free = (f"label{number}" for number in ("", *range(2, len(stored) + 3)))
        self.label = own or next(name for name in free if name not in stored.names)
        made = [WEIGHT] if params.how == "weight" else []
        if params.how == "soft":
            made += [f"{POSTERIOR}{value}" for value in report.label_values]
        if taken := [one for one in made if one in stored.names]:
            raise InputError(
                f"{params.source}: has a column {taken[0]!r}, which is what clean would add; "
                "rename it and train again, or clean otherwise"
            )
        self.trained, self.source, self.params, self.stored = trained, source, params, stored
        mended = map(report.config.parameters.get, ("corrections", "join_labels"))
        self.has_others = params.how == "relabel" or any(mended)
        self.classes, self.matrix = report.label_values, report.matrix(trained.run)
        self.verdicts = _Verdicts(trained)
        self.n_rows = self.n_judged = self.n_suspect = 0
        self.by_class = np.zeros(len(self.classes), np.int64)

    @property
    def schema(self) -> pa.Schema:
        """Of what is written."""
        return self._cleaned(self.stored.empty_table(), 0).schema

    def tables(self) -> Iterator[pa.Table]:
        """What is written, table by table, of a source that stays as it was trained on."""
        with unchanged(self.trained.recorded(), self.source):
            for first, table in stored_cells(self.source, self.stored):
                yield self._cleaned(table, first)

    def _cleaned(self, table: pa.Table, first: int) -> pa.Table:
        """Some rows of the source, the first of them `first`, as they are written."""
        verdicts = self.verdicts.before(first + table.num_rows)
        given, suspect, how = verdicts["given_label"], verdicts["is_label_issue"], self.params.how
        self.n_rows = first + table.num_rows
        self.n_judged, self.n_suspect = self.n_judged + len(given), self.n_suspect + suspect.sum()
        if how == "drop":
            verdicts = {name: column[~suspect] for name, column in verdicts.items()}
            given, suspect = given[~suspect], suspect[~suspect]
        likely = verdicts["likely_label"]
        code = np.where(suspect, likely, given) if how == "relabel" else given
        self.by_class += np.bincount(code, minlength=len(self.classes))
        if table.num_rows != len(code) or how == "drop":
            table = table.take(pa.array(verdicts["row"] - first))
        labels = self._labels(table, code)
        if self.label in table.column_names:
            at = table.column_names.index(self.label)
            table = table.set_column(at, self.stored.field(self.label), labels)
        else:
            table = table.append_column(self.label, labels)
        if how == "weight":
            table = table.append_column(WEIGHT, pa.array(verdicts["label_quality"]))
        if how == "soft":
            quality = verdicts["label_quality"].astype(np.float64)
            chance = soft_labels(given, likely, quality, self.matrix).astype(np.float32)
            for value, column in zip(self.classes, chance.T, strict=True):
                table = table.append_column(f"{POSTERIOR}{value}", pa.array(column))
        return table

    def _labels(self, table: pa.Table, code: Int64) -> pa.Array | pa.ChunkedArray:
        """Labels by code: as they are spelled in the table where these are its own, else each class
        in one way, as "1" and "1.0" would be two to whoever reads them."""
        named = label_names(self.classes).take(pa.array(code))
        if self.label not in table.column_names:
            return named
        column = table.column(self.label)
        # Each is a value of this column, and exact; Arrow refuses whole numbers from 2**53 on.
        return named.cast(column.type, safe=False) if self.has_others else column

    def report(self) -> CleanReport:
        """What was written."""
        doubt, interval = None, self.trained.report.share_wrong_interval
        if interval is not None and interval[0] < FEWEST_WRONG:
            doubt = (
                f"from {interval[0]:.1%} to {interval[1]:.1%} of the labels are wrong: many that "
                "are suspect may be right. Compare a model of these rows with one of all, on "
                "labels that somebody checked"
            )
        return CleanReport(
            how=self.params.how,
            n_rows=self.n_rows,
            n_written=int(self.by_class.sum()),
            n_suspect=int(self.n_suspect),
            n_left_out=self.n_rows - self.n_judged,
            label=self.label,
            label_added=self.label not in self.stored.names,
            classes=self.classes,
            n_by_class=self.by_class.tolist(),
            run=bare(self.params.run),
            out=bare(self.params.out),
            doubt=doubt,
        )


def clean_text(report: CleanReport) -> str:
    """What was written, in words."""
    done = {
        "drop": "left out",
        "relabel": "given the likely label",
        "weight": f"kept, with little {WEIGHT}",
        "soft": "kept, with the chance of each label",
    }
    lines = [
        f"{report.n_written:,} of {amount(report.n_rows, 'row')} written to {report.out}; "
        f"{amount(report.n_suspect, 'suspect label')} {done[report.how]}"
    ]
    if report.label_added:
        lines.append(f"labels are in column {report.label!r}")
    if report.n_left_out:
        lines.append(
            f"{amount(report.n_left_out, 'row is', 'rows are')} not in it, left out by the training"
        )
    gone = [str(v) for v, n in zip(report.classes, report.n_by_class, strict=True) if n == 0]
    if gone:
        lines.append(f"WARNING: no row is left of {', '.join(gone)}; give --weight or --soft")
    if report.doubt is not None:
        lines.append(f"WARNING: {report.doubt}")
    return "\n".join([*lines, ""])
