"""What a training and a scoring give to Python."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from flows.options.extras import needs
from knnoise.inputs import in_words_of_python
from storage.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from matplotlib.axes import Axes

    from flows.report.model import PoolReport
    from flows.report.model import Training as Report

SHOWN = 10
"""Suspects shown in a notebook."""

How = Literal["drop", "relabel", "weight", "soft"]
"""What becomes of suspect labels."""


@dataclass(frozen=True)
class Training:
    """A finished training."""

    run: str
    """Folder of the run."""
    summary: dict[str, Any] = field(repr=False, hash=False)
    """The report, as `report.json` holds it."""
    index: pd.Index[Any] | None = field(default=None, repr=False, hash=False, compare=False)
    """That of the rows, of a data frame of pandas that `train` was given."""

    def __fspath__(self) -> str:
        """It stands for its folder where a path is wanted, as for `compare_with`."""
        return self.run

    @property
    def label_values(self) -> list[Any]:
        """The labels as given, by code."""
        return list(self.summary["label_values"])

    @property
    def id_column(self) -> str | None:
        """The column that names the rows, if there is one."""
        return self._report.config.id_name

    @property
    def rates(self) -> pd.DataFrame:
        """Noise rates p0 and p1 with their 95 % intervals; of more classes, the share of each that
        is labeled as another."""
        import pandas as pd

        rates = self._of_labels().rates()
        rows = [[rate.estimate, *rate.interval] for rate in rates.values()]
        return pd.DataFrame(rows, list(rates), ["estimate", "low", "high"])

    @property
    def share_wrong(self) -> pd.Series[float]:
        """Share of the labels that are wrong, with its 95 % interval, which allows for mistakes at
        the boundary of the classes; NaN where most rows are of unsupported classes."""
        import pandas as pd

        self._of_labels()
        low, high = self.summary["share_wrong_interval"] or (None, None)
        values = [self.summary["share_wrong"], low, high]
        return pd.Series(values, ["estimate", "low", "high"], dtype=float, name="share_wrong")

    @property
    def matrix(self) -> pd.DataFrame:
        """(class, class) P(given | true) by the labels' names: a row for each true class, each adds
        up to 1."""
        import pandas as pd

        from storage.runs.run import Run

        matrix = self._of_labels().matrix(Run.of(self.run))
        named = {"index": pd.Index(self.label_values, name="true")}
        return pd.DataFrame(matrix, columns=pd.Index(self.label_values, name="given"), **named)

    @property
    def groups(self) -> pd.DataFrame:
        """A row for each group of `by`, worst first: rows, suspects, share of wrong labels with its
        95 % interval, drawn to the whole's, and the verdict; of two classes p0 and p1, too.

        Raises
        ------
        storage.errors.InputError
            the training was given no `by`.
        """
        import pandas as pd

        report = self._of_labels()
        groups = self.summary["groups"]
        if groups is None:
            raise InputError(f"{self.run}: trained without by; give the column that says whose")
        rows = [_group(group, report.grouped_classes) for group in groups["groups"]]
        return pd.DataFrame(rows).set_index("group").rename_axis(groups["column"])

    @cached_property
    def _report(self) -> PoolReport:
        from flows.report.content import training

        return training(self.summary)

    def _of_labels(self) -> Report:
        """Raise `InputError` where labels are candidate sets, for which no rates are estimated."""
        self._report.refuse("rates", self.run)
        return self._report.single(self.run)

    @property
    def annotators(self) -> pd.DataFrame:
        """A row for each annotator of `annotations`, the least accurate first: labels, accuracy
        with its 95 % interval, and the verdict.

        Raises
        ------
        storage.errors.InputError
            the training was given no `annotations`.
        """
        import pandas as pd

        rows = [
            (one["value"], one["labels"], one["accuracy"], *one["interval"], one["support"])
            for one in self._several()["annotators"]
        ]
        names = ["annotator", "labels", "accuracy", "low", "high", "support"]
        return pd.DataFrame(rows, columns=names).set_index("annotator")

    @property
    def consensus(self) -> pd.DataFrame:
        """A row for each training row: the likeliest label by annotators and neighbors, and how
        certain it is; raises as `annotators`."""
        self._several()
        return self._table("consensus")

    def _several(self) -> dict[str, Any]:
        self._of_labels()
        annotators: dict[str, Any] | None = self.summary["annotators"]
        if annotators is None:
            raise InputError(f"{self.run}: trained without annotations; give a table of them")
        return annotators

    @property
    def label_issues(self) -> pd.DataFrame:
        """A row for each training row: ids, given and predicted label, quality (low is bad); those
        of a data frame that `train` was given by its index, so that they can be columns of it."""
        return self._table("label_issues")

    @property
    def data_issues(self) -> pd.DataFrame:
        """A row for each training row: ids, outlier score, near duplicates and data value; by the
        same index."""
        return self._table("data_issues")

    def _table(self, name: str) -> pd.DataFrame:
        from storage.arrays.groups import undamaged
        from storage.runs.run import Run

        if Run.of(self.run).is_new():
            raise InputError(f"{self.run}: the run is gone; open it by open_run where it is")
        path = f"{self.run.rstrip('/')}/{name}.parquet"
        with undamaged(path):
            return _indexed(_read(path), self.index)

    def suspects(self, n: int = 20) -> pd.DataFrame:
        """The n rows whose given label is most likely wrong, the worst first."""
        if n < 0:
            raise InputError(f"n={n}: must be 0 or more")
        issues = self.label_issues
        suspects = issues[issues["is_label_issue"]]
        return suspects.sort_values(["label_quality", "row"]).head(n).reset_index(drop=True)

    def clean(
        self, source: Any, out: str | os.PathLike[str] | None = None, how: How = "drop", **more: Any
    ) -> Cleaned:
        """Write what this was trained on without its suspect labels, for other models, as
        `knnoise.clean` does.

        how : "drop" leaves out rows whose label is suspect, "relabel" gives them the likely label,
            "weight" adds a column sample_weight, the chance that the label is right, and "soft" a
            column posterior_LABEL for each label, its chance to be the true one
        """
        from knnoise.api import clean

        return clean(source, self, out, how=how, **more)

    @in_words_of_python()
    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        show: str | os.PathLike[str] | None = None,
        show_column: str | None = None,
        image_root: str | os.PathLike[str] | None = None,
    ) -> str:
        """Write the run's page to `path` and return that; without a path, return the page.

        Parameters
        ----------
        show : table with a row per training row, of which the page shows one column
        show_column : that column: texts, or names of images below `image_root`
        image_root : folder of the images
        """
        needs("report", "the page")
        from flows.report.page.build import write_page
        from flows.report.rows import shown_of
        from storage.export import check_target
        from storage.runs.run import Run

        run = Run.of(self.run)
        named = [one if one is None else os.fspath(one) for one in (show, show_column, image_root)]
        shown = shown_of(run, self._report.n_source_rows, *named)
        if path is not None:
            path = os.fspath(path)
            check_target(path, page=True)
            write_page(run, path, shown=shown)
            return path
        with TemporaryDirectory() as folder:
            target = Path(folder) / "report.html"
            write_page(run, str(target), shown=shown)
            return target.read_text("utf-8")

    def tree(self) -> xr.DataTree:
        """All results as lazy arrays."""
        from storage.runs.run import open_run

        return open_run(self.run)

    def plot_rates(self, ax: Axes | None = None) -> Axes:
        """The rates with their intervals."""
        rates = list(self._of_labels().rates().values())
        ax = _axes(ax, max(2.5, 1 + 0.4 * len(rates)))
        for place, rate in enumerate(rates):
            ax.plot(rate.interval, [place, place], color="0.6", linewidth=3)
            ax.plot(rate.estimate, place, "o", color="black")
            number, at = f"{rate.estimate:.3f}", (rate.estimate, place)
            ax.annotate(number, at, (0, 7), textcoords="offset points", ha="center")
        ax.set_yticks(range(len(rates)), [rate.label for rate in rates])
        ax.set(ylim=(len(rates) - 0.4, -0.6), xlabel="share of wrong labels, with 95 % interval")
        ax.set_xlim(left=0)
        return _as_written(ax)

    def plot_posterior(self, ax: Axes | None = None) -> Axes:
        """How many training rows have which share of neighbors given 1, and the threshold; of more
        than two classes, which label quality."""
        ax = _axes(ax)
        self._report.plot_posterior(ax, self.label_issues)
        return _as_written(ax)

    def __str__(self) -> str:
        from flows.report.content import train_text

        return train_text(self._report)

    def _repr_html_(self) -> str:
        table = self.suspects(SHOWN).to_html(index=False, float_format="%.3f")
        total = f"{self.summary['n_label_issues']:,} of {self.summary['n_rows']:,}"
        rates = self.rates.to_html(float_format="%.3f") if self._report.rates() else ""
        summary = f"{total} {escape(self._report.suspicion())}</p>{rates}"
        return f"<p><b>{escape(self.run)}</b>: {summary}<p>the most suspect</p>{table}"


@dataclass(frozen=True)
class Scores:
    """Scores of new rows."""

    path: str
    """Their file."""
    summary: dict[str, Any] = field(repr=False, hash=False)
    label_values: list[Any] = field(repr=False, hash=False)
    index: pd.Index[Any] | None = field(default=None, repr=False, hash=False, compare=False)
    """That of the rows, of a data frame of pandas."""

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each scored row: ids, posterior, predicted label as given; those of a data
        frame by its index, so that they can be columns of it."""
        return _indexed(_read(self.path), self.index)

    def __str__(self) -> str:
        from flows.report.content import score_text, scoring

        return score_text(scoring(self.summary))

    def _repr_html_(self) -> str:
        shown = self.frame.head(SHOWN).to_html(index=False, float_format="%.3f")
        return f"<p>{self.summary['n_rows']:,} rows scored</p>{shown}"


@dataclass(frozen=True)
class Cleaned:
    """What a training's source is without its suspect labels."""

    path: str
    """Its file."""
    summary: dict[str, Any] = field(repr=False, hash=False)
    index: str | None = None
    """Column of the file that was a data frame's index."""
    types: dict[str, Any] = field(default_factory=dict, repr=False, hash=False, compare=False)
    """Of the columns of a pandas data frame."""
    rows: pd.Index[Any] | None = field(default=None, repr=False, hash=False, compare=False)
    """That of the rows written, of a data frame of pandas."""

    @property
    def frame(self) -> pd.DataFrame:
        """The columns of the source, and what was added; the rows of a data frame by its index,
        with its types where those of the file are not told by its text."""
        table = _read(self.path)
        if self.path.lower().endswith(TYPED):
            table = table.astype(self.types)
        if self.index is None:
            return table
        table = table.set_index(self.index)  # as the file has it, that is text of many types
        return table if self.rows is None else table.set_axis(self.rows.rename(self.index))

    def __str__(self) -> str:
        from flows.clean import CleanReport, clean_text

        return clean_text(CleanReport.model_validate(self.summary))


def _group(group: dict[str, Any], classes: list[Any]) -> dict[str, Any]:
    """A group as a row of a table, with the rates of some classes."""
    low, high = group["wrong_interval"]
    row = {name: group[name] for name in ("rows", "suspects", "wrong")}
    row = {"group": group["value"], **row, "low": low, "high": high}
    row |= {"wrong_shrunk": group["wrong_shrunk"], "support": group["support"]}
    rates = {rate["true"]: rate for rate in group["rates"]}
    for code, value in enumerate(classes):
        rate = rates.get(value)
        ends = (float("nan"), float("nan")) if rate is None else rate["interval"]
        estimate = float("nan") if rate is None else rate["estimate"]
        row |= {f"p{code}": estimate, f"p{code}_low": ends[0], f"p{code}_high": ends[1]}
    return row


TYPED = (".parquet", ".arrow", ".feather")
"""Ends of the names of files that hold types."""
_CELL = re.compile(r'("(?:[^"]|"")*"|[^",\n]*)[,\n]')
_HEAD = 1 << 16
"""Characters of a CSV by which its text is known."""


def _indexed(table: pd.DataFrame, index: pd.Index[Any] | None) -> pd.DataFrame:
    """A table of rows with their index, without its name, as a column may be called so."""
    if index is None:
        return table
    rows = index[table["row"]]
    return table.set_axis(rows.set_names([None] * rows.nlevels))


def _read(path: str) -> pd.DataFrame:
    """A table of the format that its extension tells, text as it was written."""
    import fsspec
    import pandas as pd
    import pyarrow as pa
    from pyarrow import feather, parquet
    from pyarrow.types import is_boolean, is_integer

    name = path.lower()
    if name.endswith(".xlsx"):
        book = pd.read_excel(path, dtype=object, keep_default_na=False, na_values=[""])
        return book.infer_objects()
    if name.endswith((".csv", ".csv.gz")):
        names = [*pd.read_csv(path, nrows=0)]
        with fsspec.open(path, "rt", compression="infer", encoding="utf-8", newline="") as file:
            scanner = _CELL.scanner(file.read(_HEAD))  # type: ignore[attr-defined]
        quoted = [cell[1][:1] == '"' for cell in iter(scanner.match, None)]  # as text alone is
        texts = {one for at, one in enumerate(names, len(names)) if any(quoted[at :: len(names)])}
        absent = {one: [""] if one in texts else ["", "nan"] for one in names}
        given: dict[str, Any] = {"dtype_backend": "pyarrow", "dtype": dict.fromkeys(texts, str)}
        cells = pd.read_csv(path, **given, keep_default_na=False, na_values=absent)
        table = pa.Table.from_pandas(cells, preserve_index=False).replace_schema_metadata(None)
    elif name.endswith(".jsonl"):
        with fsspec.open(path, "rt", encoding="utf-8") as file:
            lines = [*map(json.loads, file)]
        columns = {one: [line[one] for line in lines] for one in next(iter(lines), ())}
        table = pa.table({one: _numbers_exact(column) for one, column in columns.items()})
    else:
        with fsspec.open(path, "rb") as file:
            read = feather if name.endswith(TYPED[1:]) else parquet
            table = read.read_table(file)
    gaps = [one for one in table.schema if table[one.name].null_count]
    whole = [one for one in gaps if is_integer(one.type)]
    nullable = {one.name: str(one.type).replace("int", "Int").replace("u", "U") for one in whole}
    nullable |= {one.name: "boolean" for one in gaps if is_boolean(one.type)}
    return table.to_pandas(integer_object_nulls=True).astype(nullable)  # no digits go to float64


def _numbers_exact(column: list[Any]) -> pa.Array:
    """A column of JSON, whose whole numbers may be unsigned."""
    import pyarrow as pa

    try:
        return pa.array(column)
    except OverflowError:
        return pa.array(column, pa.uint64())


def _as_written(ax: Axes) -> Axes:
    """Axes whose labels of classes are no formulas, though they have dollars."""
    for text in (ax.xaxis.label, *ax.get_yticklabels()):
        text.set_parse_math(False)
    return ax


def _axes(ax: Axes | None, inches: float = 2.5) -> Axes:
    if ax is not None:
        return ax
    needs("report", "a figure")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6, inches), layout="constrained")[1]
