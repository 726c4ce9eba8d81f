"""What becomes of a training's features before rows are compared: scaled, projected on components,
weighted by a metric, given logits. Learned once, kept in the run, applied where rows are used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import Result
from flows.steps.lookup import pick
from pipeline.blocks.logits import MOST_CLASSES, Forests
from pipeline.blocks.metric import (
    AS_SCALED,
    FEWEST_ROWS,
    SAMPLE_ROWS,
    WEIGHTED,
    Choice,
    Modeled,
    choose_metric,
)
from pipeline.blocks.projection import MOST_FEATURES, Components, Covariance, Float32
from pipeline.blocks.scaling import Scaling
from storage.errors import InputError
from storage.groups import read_array, write_group
from storage.location import Location
from storage.pool import Pool
from storage.run import Run

PROJECTION, METRIC = "projection", "metric"


@dataclass(frozen=True)
class PcaUsed:
    """Features reduced to their principal components."""

    n_components: int
    variance_kept: float
    """Share of the variance of the scaled features."""


@dataclass(frozen=True)
class Projected(Scaling):
    """Components of the features, and the scaling of these; by the place of their weights, as parts
    are small."""

    location: str = ""
    """The run."""
    digest: str = ""
    """Of the weights: another training may have been in this folder."""

    def apply(self, x: Float32) -> Float32:
        """(row, component) float32 of rows (row, feature) float32."""
        return super().apply(_components(self.location, self.digest).apply(x))


@dataclass(frozen=True)
class BesideLogits(Scaling):
    """Features by their weights, and logits of the same trees for a pool and its queries; by the
    place of the trees."""

    base: Scaling = field(default_factory=Scaling)
    """What is done before."""
    location: str = ""
    """The run."""
    digest: str = ""
    """Of the trees."""

    def apply(self, x: Float32) -> Float32:
        """(row, feature and logit) float32 of rows (row, feature) float32."""
        trees = _forests(self.location, self.digest)
        return Modeled(self.offset, self.factor, forests=trees).apply(self.base.apply(x))


@dataclass(frozen=True)
class Metric(Result):
    """What the step `metric` found."""

    choice: Choice
    scaling: Scaling
    """Of the features as scaled, or of the components."""
    digest: str = ""
    """Of the trees whose logits stand beside them; empty where there are none."""


@dataclass(frozen=True)
class Learn:
    """What the metric is learned from: the sample of the pool."""

    pool: Pool
    scaling: Scaling
    asked: str
    seed: int
    embedded: bool


@lru_cache(maxsize=2)
def _components(location: str, digest: str) -> Components:
    group = Run(Location(location)).group(PROJECTION)
    return Components(*(read_array(group, name) for name in Components._fields))


@lru_cache(maxsize=2)
def _forests(location: str, digest: str) -> Forests:
    group = Run(Location(location)).group(METRIC)
    return Forests(*(read_array(group, name) for name in Forests._fields))


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


def keep_projection(run: Run, seen: Covariance, n_components: int, scaling: Scaling) -> list[str]:
    """Write the components of all rows seen to the group `projection`; keys of what was written."""
    found, share = seen.components(n_components, scaling)
    about = {
        "n_components": n_components,
        "variance_kept": share,
        "digest": _digest(found),
    }
    write_group(run.store, PROJECTION, PROJECTION, found._asdict(), about)
    return [run.key(PROJECTION)]


def _digest(arrays: Iterable[npt.NDArray[Any]]) -> str:
    content = b"".join(array.tobytes() for array in arrays)
    return blake2b(content, digest_size=16).hexdigest()


def _about(run: Run) -> dict[str, Any] | None:
    """What the projection of a run says of itself; None where there is none. The metadata of the
    groups above may be torn."""
    if not run.location.exists(run.key(f"{PROJECTION}/zarr.json")):
        return None
    return dict(run.group(PROJECTION).attrs.asdict())


def learn_transform(
    job: Job, pool: Pool, scaling: Scaling, asked: str, seed: int, *, embedded: bool = False
) -> Scaling:
    """The transform of a pool whose labels are one a row, its metric learned where one is to be;
    features that are `embedded` are weighed only as asked.

    Raises
    ------
    InputError
        weights are asked for, and cannot be learned.
    """
    if asked == AS_SCALED or (asked == "auto" and pool.n_rows < FEWEST_ROWS):
        return transform(job.run, scaling)
    if pool.n_rows < FEWEST_ROWS:
        raise InputError(
            f"--metric {asked}: {pool.n_rows} rows are too few to learn from, {FEWEST_ROWS} are "
            "needed; leave it out"
        )
    learn = Learn(pool, _components_of(job.run, scaling), asked, seed, embedded)
    found = Metric.of(job.parts(METRIC, learn_part, [Part("all", learn)])[0])
    if asked not in ("auto", found.choice.metric):
        if any(one.metric == WEIGHTED for one in found.choice.tried):
            raise InputError(
                f"--metric {asked}: trees need 2 to {MOST_CLASSES} classes, none of them too rare "
                "to be in each part of the sample; take --metric weighted"
            )
        raise InputError(
            f"--metric {asked}: no feature tells more of the labels than of shuffled ones; leave "
            "it out, or give other features"
        )
    return transform(job.run, scaling)


def learn_part(run: Run, part: Part[Learn]) -> Output:
    """The metric, from the sample of rows that was drawn while the source was read."""
    how = part.args
    sample = run.group("samples/partition")
    x, row = (read_array(sample, name, slice(0, SAMPLE_ROWS)) for name in ("x", "row"))
    order = np.argsort(row)
    y = np.empty(len(row), np.int64)
    y[order] = pick(run, "pool", "y", row[order])
    angles = how.scaling == Scaling()  # else they are about a mean
    x, weigh = how.scaling.apply(x), not how.embedded
    chosen, by = choose_metric(x, y, how.seed, how.asked, angles=angles, weigh=weigh)
    scaling = Scaling(by.offset, by.factor, by.directions)
    if not isinstance(by, Modeled) or by.forests is None:
        return Output([], Metric(chosen, scaling))
    digest = _digest(by.forests)
    write_group(run.store, METRIC, METRIC, by.forests._asdict(), {"digest": digest})
    return Output([run.key(METRIC)], Metric(chosen, scaling, digest))


def transform(run: Run, scaling: Scaling) -> Scaling:
    """What becomes of a training's features: its scaling, projection and metric, where it has
    them."""
    base, metric = _components_of(run, scaling), metric_used(run)
    if metric is None or not metric.digest:
        return base if metric is None else base.then(metric.scaling)
    by = metric.scaling
    return BesideLogits(by.offset, by.factor, by.directions, base, run.location.url, metric.digest)


def metric_used(run: Run) -> Metric | None:
    """The metric that a training chose; None where it had no choice."""
    record = run.ledger.get(METRIC, "all")
    return None if record is None else Metric.of(record)


def _components_of(run: Run, scaling: Scaling) -> Scaling:
    """The scaling of a training, or its projection if it has one."""
    about = _about(run)
    return (
        scaling if about is None else Projected(location=run.location.url, digest=about["digest"])
    )


def pca_used(run: Run) -> PcaUsed | None:
    """How a training reduced its features; None where it did not."""
    about = _about(run)
    return None if about is None else PcaUsed(about["n_components"], about["variance_kept"])
