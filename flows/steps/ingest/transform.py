"""The transform of a training's features before rows are compared: scaling, principal components,
weights of a metric, logits. It is learned once, kept in the run, and applied wherever rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, result_of
from flows.steps.graph.lookup import pick
from pipeline.arrays import AnyArray, Float32
from pipeline.blocks.curves import Curves
from pipeline.blocks.logits import Forests, digest_of, of_chances, spread_of
from pipeline.blocks.metric import (
    AS_SCALED,
    FEWEST_ROWS,
    PROBABILITIES,
    SAMPLE_ROWS,
    MetricChoice,
    Modeled,
    choose_metric,
)
from pipeline.blocks.projection import MOST_FEATURES, Components, Covariance
from pipeline.blocks.scaling import Scaling
from pipeline.knn.threads import Threads
from pipeline.noise.copies import one_of_copies
from storage.arrays.groups import read_array
from storage.errors import InputError
from storage.files.location import Location
from storage.runs.pool import Pool
from storage.runs.run import Run

PROJECTION, METRIC, CURVES = "projection", "metric", "curves"
KINDS: dict[str, Any] = {PROJECTION: Components, CURVES: Curves}
"""What such a group holds; others hold models."""
TREES = "trees"
"""The group of the models that stand beside the vote."""
SUM_WITHIN = 0.01
"""How far from 1 the probabilities of a row may add up: files round them."""


@dataclass(frozen=True)
class PcaUsed:
    """Features reduced to their principal components."""

    n_components: int
    variance_kept: float
    """Share of the variance of the scaled features."""


@dataclass(frozen=True)
class Kept(Scaling):
    """Components or curves of the features, and the scaling of these. It names where they are kept,
    as what parts are given is small."""

    base: Scaling = field(default_factory=Scaling)
    """What is done before."""
    location: str = ""
    """The run."""
    path: str = PROJECTION
    """The group."""
    digest: str = ""
    """Of what is in it: another training may have been in this folder."""

    def apply(self, x: Float32) -> Float32:
        """(row, component or feature) float32 of rows (row, feature) float32."""
        return super().apply(kept(self.location, self.path, self.digest).apply(self.base.apply(x)))


@dataclass(frozen=True)
class BesideLogits(Scaling):
    """Weighted features with logits beside them: of trees, which a pool and its queries share and
    whose place is named, or of probabilities in columns of the source."""

    base: Scaling = field(default_factory=Scaling)
    """What is done before."""
    location: str = ""
    """The run."""
    digest: str = ""
    """Of the trees; empty where columns are probabilities."""
    columns: tuple[int, ...] = ()
    """Those of the classes' probabilities."""
    spread: float = 1.0
    """Of their logits."""

    def apply(self, x: Float32) -> Float32:
        """(row, feature and logit) float32 of rows (row, feature) float32."""
        rows = self.base.apply(x)
        if self.digest:
            trees = kept(self.location, METRIC, self.digest)
            return Modeled(self.offset, self.factor, forests=trees).apply(rows)
        logits = _logits(x, self.columns) / np.float32(self.spread)
        return np.hstack([super().apply(rows), logits])


@dataclass(frozen=True)
class Metric:
    """What the step `metric` found."""

    choice: MetricChoice
    scaling: Scaling
    """Of the features as scaled, or of the components."""
    digest: str = ""
    """Of the trees whose logits stand beside them; empty where there are none."""
    columns: tuple[int, ...] = ()
    """Features that are probabilities of the classes, and no features to compare."""
    spread: float = 1.0
    """Of their logits."""
    curves: str = ""
    """Digest of the curves of the features of heavy tails; empty where there are none."""


@lru_cache(maxsize=4)
def kept(location: str, path: str, digest: str) -> Any:
    """Trees, components or curves, in a group of a run, by their digest."""
    group, kind = Run(Location(location)).group(path), KINDS.get(path, Forests)
    return kind(*(read_array(group, name) for name in kind._fields))


def heard(
    digest: str,
    run: Run,
    say: Callable[[Forests, Float32], AnyArray],
    features: Callable[[], Float32],
    are_new: bool = False,
) -> AnyArray | None:
    """What the models beside a training's vote ``say`` of rows, which may be new ones, by their
    unscaled features; None where there are no models, whose digest is empty."""
    if not digest:
        return None
    forests = kept(run.location.url, TREES, digest)
    return say(forests.for_new_rows() if are_new else forests, features())


def keep_forests(run: Run, path: str, forests: Forests) -> list[str]:
    """Write models to a group; keys of what was written."""
    return run.write(path, "forests", forests._asdict(), {"digest": forests.digest})


def check_pca(n_components: int | None, n_features: int, where: str) -> None:
    """`InputError` where a source cannot be reduced as asked."""
    if n_components is None:
        return
    if n_features > MOST_FEATURES:
        raise InputError(
            f"{where}: {n_features:,} features, and --pca takes {MOST_FEATURES:,} at most, whose "
            "covariance fits in memory; reduce them before, or leave --pca out"
        )
    if n_components > n_features:
        raise InputError(
            f"{where}: --pca {n_components:,} of {n_features:,} features; give {n_features:,} or "
            "fewer"
        )


def keep_projection(run: Run, of: Covariance, n_components: int, scaling: Scaling) -> list[str]:
    """Write the components of all rows seen to the group `projection`; keys of what was written."""
    projection, share = of.components(n_components, scaling)
    about = {
        "n_components": n_components,
        "variance_kept": share,
        "digest": digest_of(projection),
    }
    return run.write(PROJECTION, PROJECTION, projection._asdict(), about)


def _about(run: Run) -> dict[str, Any] | None:
    """What the projection of a run says of itself; None where there is none."""
    return dict(run.group(PROJECTION).attrs.asdict()) if run.has(PROJECTION) else None


def _logits(x: Float32, columns: tuple[int, ...]) -> Float32:
    return of_chances(np.ascontiguousarray(x[:, columns]))


def _without(scaling: Scaling, columns: tuple[int, ...], n_features: int) -> Scaling:
    """The scaling, and some columns 0."""
    kept = tuple(float(at not in columns) for at in range(n_features))
    return scaling.then(Scaling((0.0,) * n_features, kept)) if columns else scaling


def probability_columns(
    run: Run,
    prefix: str | None,
    names: Sequence[str],
    classes: Sequence[LabelValue],
    statistics: Mapping[str, list[float]],
) -> tuple[int, ...]:
    """Places of the columns that hold a model's probabilities of the classes, in their order.

    Raises
    ------
    InputError
        a class has no column or a column no class, or values are no probabilities. That they add
        up to 1 is looked at in a sample.
    """
    if prefix is None:
        return ()
    given = f"--model-probabilities {prefix}"
    wanted = [f"{prefix}{value}" for value in classes]
    for name in wanted:
        if name not in names:
            raise InputError(f"{given}: no feature {name!r}, and each class needs its column")
    for name in names:
        if name.startswith(prefix) and name not in wanted:
            raise InputError(f"{given}: column {name!r} is of no class; rename it or leave it out")
    columns = tuple(names.index(name) for name in wanted)
    check_probabilities(given, columns, names, statistics)
    sample = run.group("samples/partition")
    total = read_array(sample, "x")[:, columns].sum(axis=1, dtype=np.float64)
    worst = int(np.abs(total - 1.0).argmax())
    if abs(total[worst] - 1.0) > SUM_WITHIN:
        row = int(read_array(sample, "row")[worst])
        raise InputError(
            f"{given}: those of row {row} add up to {total[worst]:.4g}; they must add up to 1"
        )
    return columns


def check_probabilities(
    where: str,
    columns: tuple[int, ...],
    names: Sequence[str],
    statistics: Mapping[str, list[float]],
) -> None:
    """Raise `InputError` where some of the columns hold what is no probability."""
    for at in columns:
        for value in (statistics["minimum"][at], statistics["maximum"][at]):
            if not 0 <= value <= 1:
                raise InputError(
                    f"{where}: column {names[at]!r} holds {value:g}; probabilities lie from 0 to 1"
                )


def learn_transform(
    job: Job,
    pool: Pool,
    scaling: Scaling,
    wanted: str,
    seed: int,
    *,
    embedded: bool = False,
    columns: tuple[int, ...] = (),
) -> Scaling:
    """The transform of a pool of single labels, with its metric learned if one is ``wanted``.
    Features that are `embedded` are weighted only if asked for; `columns` are probabilities.

    Raises
    ------
    InputError
        weights are asked for, and cannot be learned.
    """
    if wanted == AS_SCALED or (wanted == "auto" and pool.n_rows < FEWEST_ROWS and not columns):
        return transform(job.run, scaling)
    if pool.n_rows < FEWEST_ROWS:
        raise InputError(
            f"--metric {wanted}: {pool.n_rows} rows are too few to learn from, "
            f"{FEWEST_ROWS} are needed; leave it out"
        )
    scaled, threads = _components_of(job.run, scaling), Threads(job.machine().threads)
    how = pool.n_rows, scaled, wanted, seed, embedded, columns, threads
    (record,) = job.parts(METRIC, partial(learn_part, *how), [Part("all", None)])
    metric = result_of(record, Metric)
    if wanted not in ("auto", metric.choice.metric):
        if (why := metric.choice.why_no_model()) is not None:
            raise InputError(f"--metric {wanted}: {why}; take --metric weighted")
        raise InputError(
            f"--metric {wanted}: no feature tells more of the labels than of shuffled ones; "
            "leave it out, or give other features"
        )
    return transform(job.run, scaling)


def learn_part(
    n_rows: int,
    scaling: Scaling,
    wanted: str,
    seed: int,
    embedded: bool,
    columns: tuple[int, ...],
    threads: Threads,
    run: Run,
    part: Part[None],
) -> Output:
    """The metric, from the sample of rows that was drawn while the source was read."""
    sample = run.group("samples/partition")
    x, row = (read_array(sample, name, slice(0, SAMPLE_ROWS)) for name in ("x", "row"))
    y = pick(run, "pool", "y", row).astype(np.int64)
    angles = scaling == Scaling()  # else they are about a mean
    logits, spread = None, 1.0
    if columns:
        logits = _logits(x, columns)
        spread = spread_of(logits) or 1.0
        logits /= np.float32(spread)
    x = _without(scaling, columns, x.shape[1]).apply(x)
    alone = one_of_copies(x, y, threads)
    chosen, learned = choose_metric(
        *(x[alone], y[alone], seed, wanted),
        angles=angles,
        embedded=embedded,
        logits=None if logits is None else logits[alone],
        n_rows=n_rows,
        threads=threads,
    )
    metric = Metric(
        chosen, Scaling(learned.offset, learned.factor, learned.directions), "", columns, spread
    )
    written: list[str] = []
    curves, forests = (
        (learned.curves, learned.forests) if isinstance(learned, Modeled) else (None, None)
    )
    if curves is not None:
        metric = replace(metric, curves=digest_of(curves))
        written += run.write(CURVES, CURVES, curves._asdict(), {"digest": metric.curves})
    if forests is not None:
        metric = replace(metric, digest=forests.digest)
        written += keep_forests(run, METRIC, forests)
    return Output(written, metric)


def transform(run: Run, scaling: Scaling) -> Scaling:
    """What becomes of a training's features: its scaling, projection and metric, where it has
    them."""
    base, metric = _components_of(run, scaling), metric_used(run)
    if metric is None:
        return base
    by = metric.scaling
    if metric.columns:
        n_features = len(run.config()["feature_names"])
        base = _without(base, metric.columns, n_features)
    if metric.curves:
        base = Kept(base=base, location=run.location.url, path=CURVES, digest=metric.curves)
    if not metric.digest and metric.choice.metric != PROBABILITIES:
        return base.then(by)
    place = run.location.url, metric.digest
    return BesideLogits(by.offset, by.factor, False, base, *place, metric.columns, metric.spread)


def metric_used(run: Run) -> Metric | None:
    """The metric that a training chose; None where it had no choice."""
    record = run.ledger.get(METRIC, "all")
    return None if record is None else result_of(record, Metric)


def _components_of(run: Run, scaling: Scaling) -> Scaling:
    """The scaling of a training, or its projection if it has one."""
    about = _about(run)
    return scaling if about is None else Kept(location=run.location.url, digest=about["digest"])


def pca_used(run: Run) -> PcaUsed | None:
    """How a training reduced its features; None where it did not."""
    about = _about(run)
    return None if about is None else PcaUsed(about["n_components"], about["variance_kept"])
