"""The acquiring flow: a pool without labels → the few that are worth buying, bought and kept."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa

from flows.engine.claim import claimed
from flows.engine.cluster import check_reachable, fitting
from flows.engine.guard import refuse_while_imported
from flows.engine.job import Job
from flows.engine.progress.reporter import Reporter
from flows.engine.tasks.as_task import as_task
from flows.options.params import AcquireParams, as_keywords
from flows.orchestration.config import check_same, describe
from flows.orchestration.session import open_job
from flows.steps.anchors import find_anchors, find_pairs
from flows.steps.ingest import Ingested, ingest
from flows.steps.partition import Wanted
from flows.steps.widening import widen_until
from pipeline.graph.build import NeighborParams, choose_builder, training_seconds
from pipeline.methods.bought_labels import BoughtLabels
from pipeline.methods.growing_net import GrowthParams, grow, predict
from pipeline.methods.marmann import Answer as Bought
from pipeline.methods.marmann import Marmann
from storage.answer_table import export_answers
from storage.answers import Answer, AnswersFile, Asked, Origin
from storage.convert import write_columns
from storage.errors import InputError
from storage.groups import read_array
from storage.location import Location
from storage.run import Run
from storage.sources import Source, open_source
from storage.sources.corrections import labels_to_import
from storage.sources.labels import Label, label_value

if TYPE_CHECKING:
    from prefect import Flow

    acquire: Flow[..., dict[str, Any]]

LOG = "review/answers.jsonl"
WANTED = "wanted.csv"
BOUGHT = "bought.csv"
PREDICTED = "labels.parquet"
FEWEST_ROWS = 6
DELTA = 0.05
"""Of the guarantee of the printed constants."""
Oracle = Callable[[list[int]], Sequence[Any]]
"""Rows → their labels."""


@as_keywords(AcquireParams, name="acquire")
def run_acquire(params: AcquireParams) -> dict[str, Any]:
    """Buy the labels of a pool that are worth most, within a budget; those bought before are kept
    and never asked for again.

    Returns:
        labels known and bought, and the files that hold them, the rows that people are to label
        and the labels predicted for all rows

    Raises:
        storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
            for people.
    """
    refuse_while_imported()
    check_reachable(params)
    held_back = params.label_column is not None
    oracles = {"--oracle": params.oracle, "--label-column": params.label_column}
    given = [name for name, value in oracles.items() if value is not None]
    given += ["--page"] if params.page else []
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)}: give one of them, each is an oracle")
    opened = open_source(
        params.source,
        label_column=params.label_column,
        with_labels=held_back,
        dialect=params.dialect(),
    )
    oracle = None if params.oracle is None else _callable(params.oracle)
    method = params.model_dump(include={"scale", "builder", "target_recall", "seed"})
    folder, reporter = Run(Location.of(params.run)), Reporter(quiet=params.quiet)

    def same(config: Mapping[str, Any]) -> None:
        check_same(config, method, {}, opened)

    if not folder.is_new():
        folder.repair()
        same(folder.config())
    work = training_seconds(params.builder, opened.n_rows or 0, len(opened.feature_names))
    with (
        claimed(folder, lambda: describe(method, opened), same, reporter) as owned,
        open_job(owned, fitting(params, work), reporter) as job,
    ):
        return _acquire(job, opened, params, oracle)


def _callable(name: str) -> Oracle:
    """The function `module:function`."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--oracle {name}: cannot be imported ({error}); give module:function on Python's path"
        ) from error
    if not callable(found):
        raise InputError(f"--oracle {name}: is no function; it is called with row numbers")
    oracle: Oracle = found
    return oracle


def _acquire(
    job: Job, source: Source, params: AcquireParams, oracle: Oracle | None
) -> dict[str, Any]:
    """The steps, in order."""
    job.verify()
    ingested = as_task(
        "ingest",
        lambda: ingest(job, source, path="pool", scale=params.scale, seed=params.seed),
    )
    x, neighbor = _graph(job, ingested, params)
    values = tuple(ingested.label_values or ())
    name = job.run.location.name.rsplit("/", 1)[-1]
    origin = Origin.of_config(job.run.config(), values, ingested.n_rows, name)
    file = AnswersFile.open(job.run.location.path(LOG), origin)
    if params.answers is not None:
        _take(file, origin, params.answers)
    if values:
        oracle = _column(job.run, values)
    desk = _Desk(file, job.run, oracle)
    n_bought = len(desk.known())
    left = params.budget - n_bought
    answer, waiting = None, 0
    try:
        if params.page and left > 0:
            with _page(job.run, source, ingested, x, neighbor, params, desk) as asking:
                desk.oracle = asking
                answer = desk.buy(x, neighbor, left, params)
        else:
            answer = desk.buy(x, neighbor, left, params)
    except _Waiting as wanted:
        waiting = len(wanted.rows)
    if answer is None and desk.known():
        rows = np.array(sorted(desk.known()), np.int64)
        answer = Bought(rows, np.array([desk.known()[row] for row in rows.tolist()]), None, None)
    run = job.run.location
    if answer is not None:
        _write(run.path(PREDICTED), desk.values, predict(x, x, answer), desk.known())
        export_answers(file, run.path(BOUGHT))
    return {
        "n_rows": ingested.n_rows,
        "budget": params.budget,
        "n_known": len(desk.known()),
        "n_bought": len(desk.known()) - n_bought,
        "n_wanted": waiting,
        "mode": params.mode,
        "answers": str(file.path),
        "wanted": run.path(WANTED) if waiting else None,
        "labels": None if answer is None else run.path(PREDICTED),
    }


def _graph(
    job: Job, ingested: Ingested, params: AcquireParams
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Features, scaled, and the lists of all rows; in this process, as a net is grown over all."""
    pool, scaling = ingested.pool(job.run, "pool"), ingested.scaling
    length = min(GrowthParams().n_neighbors, pool.n_rows - 1)
    if pool.n_rows < FEWEST_ROWS:
        raise InputError(f"{pool.n_rows} rows are too few: at least {FEWEST_ROWS} are needed")
    room, wanted = psutil.virtual_memory().available, pool.n_rows * (4 * pool.n_features + 8 * 40)
    if wanted > room // 2:
        raise InputError(
            f"{pool.n_rows:,} rows take {wanted / 1e9:.1f} GB in this process, of {room / 1e9:.1f} "
            "free; buy labels of a sample of them"
        )
    builder = choose_builder(params.builder, pool.n_rows, pool.n_features)
    as_task("anchors", lambda: find_anchors(job, pool, scaling, length, rates=False))
    pairs = as_task("pairs", lambda: find_pairs(job, pool, scaling, length))
    wish = Wanted(None, params.target_recall, length, builder == "exact", params.seed)
    how = NeighborParams(length, builder, seed=params.seed)
    blocks = widen_until(job, pool, scaling, pairs, how, wish).blocks
    x = np.concatenate([scaling.apply(pool.read("x", rows)) for rows in pool.parts()])
    neighbor = np.empty((pool.n_rows, length), np.int64)
    for number in range(len(blocks.sizes)):
        group = job.run.group(f"graph/{number:05d}")
        neighbor[read_array(group, "row")] = read_array(group, "neighbor")
    return x, neighbor


def _page(
    run: Run,
    source: Source,
    ingested: Ingested,
    x: npt.NDArray[np.float32],
    neighbor: npt.NDArray[np.int64],
    params: AcquireParams,
    desk: _Desk,
) -> AbstractContextManager[Oracle]:
    """A page that asks people for labels of those that are known, and those that are given."""
    from flows.review.serving import Rows
    from flows.review.wanted import people

    given = [label_value(raw) for raw in params.label_values or ()]
    labels = list(dict.fromkeys([*(one for one in given if one is not None), *desk.values]))
    if len(labels) < 2:
        raise InputError(
            f"{len(labels)} labels that people can give; name them: --label-values cat "
            "--label-values dog"
        )
    rows = Rows(run, list(source.feature_names), ingested.n_rows, "label")
    return people(desk.file, rows, x, neighbor, params, labels)


class _Waiting(Exception):
    """People are to label these rows first."""

    def __init__(self, rows: list[int]) -> None:
        super().__init__()
        self.rows = rows


@dataclass
class _Desk:
    """Labels by row, each kept before it is used; codes are places among the values met so far."""

    file: AnswersFile
    run: Run
    oracle: Oracle | None
    values: list[Label] = field(default_factory=list)

    def __post_init__(self) -> None:
        labels = {said.label for said in self.file.answers.rows() if said.label is not None}
        self.values = sorted(labels, key=lambda value: (isinstance(value, str), value))

    def known(self) -> dict[int, int]:
        """Code by row of all labels there are."""
        said = self.file.answers.rows()
        return {one.row: self._code(one.label) for one in said if one.label is not None}

    def _code(self, value: Label) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def buy(
        self,
        x: npt.NDArray[np.float32],
        neighbor: npt.NDArray[np.int64],
        left: int,
        params: AcquireParams,
    ) -> Bought | None:
        """Buy up to `left` labels; what answers then, None without any label."""
        if left < 1:
            return None
        labels = BoughtLabels(self.ask, left, self.known())
        if params.mode == "printed":
            return Marmann(x, labels, DELTA, params.seed).run()
        return grow(x, neighbor, labels, left)

    def ask(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(row,) codes of the labels of rows; every label is on the disk before it is used."""
        wanted = rows.tolist()
        if self.oracle is None:
            self._want(wanted)
            raise _Waiting(wanted)
        found = list(self.oracle(wanted))
        if len(found) != len(wanted):
            raise InputError(
                f"--oracle gave {len(found):,} labels for {len(wanted):,} rows; it must give one "
                "for each"
            )
        labels = [label_value(raw) for raw in found]
        if None in labels:
            raise InputError(
                f"the oracle has no label for row {wanted[labels.index(None)]:,}; what was bought "
                "is kept"
            )
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        by_label: dict[Label, list[Asked]] = {}
        for row, label in zip(wanted, labels, strict=True):
            assert label is not None
            if self.file.answers.of_row(row).label is not None:  # people's are kept as they answer
                continue
            by_label.setdefault(label, []).append(Asked(row, None, "wanted", False))
        for label, asked in by_label.items():
            self.file.add(Answer(uuid.uuid4().hex, tuple(asked), label, "oracle", now))
        return np.array([self._code(label) for label in labels if label is not None], np.int64)

    def _want(self, rows: list[int]) -> None:
        empty = pa.nulls(len(rows), pa.string())
        write_columns(self.run.location.path(WANTED), {"row": pa.array(rows), "label": empty})


def _column(run: Run, values: tuple[Label, ...]) -> Oracle:
    """The labels that are held back in the pool."""

    def ask(rows: list[int]) -> list[Label]:
        group = run.group("pool")
        codes = [int(read_array(group, "y", slice(row, row + 1))[0]) for row in rows]
        return [values[code] for code in codes]

    return ask


def _take(file: AnswersFile, origin: Origin, path: str) -> None:
    """Keep the labels that people gave, as those of a review are kept."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for row, reviewer, label in labels_to_import(path, origin):
        if row not in file.answers:
            asked = (Asked(row, None, "wanted", False),)
            file.add(Answer(uuid.uuid4().hex, asked, label, reviewer, now))


def _write(
    target: str,
    values: list[Label],
    predicted: npt.NDArray[np.int64],
    known: Mapping[int, int],
) -> None:
    """The label of every row, and whether it was bought."""
    bought = np.zeros(len(predicted), np.bool_)
    bought[list(known)] = True
    kinds = {type(value) for value in values}
    names = pa.array(values if len(kinds) == 1 else [str(value) for value in values])
    columns = {
        "row": pa.array(np.arange(len(predicted))),
        "label": names.take(pa.array(predicted)),
        "is_bought": pa.array(bought),
    }
    write_columns(target, columns)


def acquire_text(result: Mapping[str, Any]) -> str:
    """What a person reads."""
    lines = [
        f"{result['n_rows']:,} rows, {result['n_known']:,} of {result['budget']:,} labels known, "
        f"{result['n_bought']:,} of them bought now",
    ]
    if result["mode"] == "practical":
        lines.append(
            "  by the growing net, which has no guarantee; --mode printed has one, and "
            "buys every label of a pool of this size"
        )
    if result["n_wanted"]:
        lines.append(
            f"{result['n_wanted']:,} labels are wanted: fill in {result['wanted']} and run the "
            f"same command with --answers {result['wanted']}, or answer on a page with --page"
        )
    if result["labels"]:
        lines.append(f"labels of all rows: {result['labels']}; those bought: {result['answers']}")
    return "\n".join(lines) + "\n"


def __getattr__(name: str) -> Any:
    """`acquire`, the Prefect flow of `run_acquire`, made when it is asked for."""
    if name != "acquire":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flows.orchestration.prefect_flow import as_flow

    made = globals()["acquire"] = as_flow(run_acquire, "knnoise-acquire")
    return made
