"""The projection of a training: kept in its run, read where rows are used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from pipeline.blocks.projection import MOST_FEATURES, Components, Covariance, Float32
from pipeline.blocks.scaling import Scaling
from storage.errors import InputError
from storage.groups import read_array, write_group
from storage.location import Location
from storage.run import Run

PROJECTION = "projection"


@dataclass(frozen=True)
class PcaUsed:
    """Features reduced to their principal components."""

    n_components: int
    variance_kept: float
    """Share of the variance of the scaled features."""


@dataclass(frozen=True)
class Projected(Scaling):
    """Scaling and projection, by the place of their weights: parts are small."""

    location: str = ""
    """The run."""
    digest: str = ""
    """Of the weights: another training may have been in this folder."""

    def apply(self, x: Float32) -> Float32:
        """(row, component) float32 of rows (row, feature) float32."""
        return _components(self.location, self.digest).apply(x)


@lru_cache(maxsize=2)
def _components(location: str, digest: str) -> Components:
    group = Run(Location(location)).group(PROJECTION)
    return Components(*(read_array(group, name) for name in Components._fields))


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
    content = b"".join(array.tobytes() for array in found)
    about = {
        "n_components": n_components,
        "variance_kept": share,
        "digest": blake2b(content, digest_size=16).hexdigest(),
    }
    write_group(run.store, PROJECTION, PROJECTION, found._asdict(), about)
    return [run.key(PROJECTION)]


def _about(run: Run) -> dict[str, Any] | None:
    """What the projection of a run says of itself; None where there is none. The metadata of the
    groups above may be torn."""
    if not run.location.exists(run.key(f"{PROJECTION}/zarr.json")):
        return None
    return dict(run.group(PROJECTION).attrs.asdict())


def transform(run: Run, scaling: Scaling) -> Scaling:
    """What becomes of a training's features: its scaling, and its projection if it has one."""
    about = _about(run)
    if about is None:
        return scaling
    return Projected(scaling.offset, scaling.factor, run.location.url, about["digest"])


def pca_used(run: Run) -> PcaUsed | None:
    """How a training reduced its features; None where it did not."""
    about = _about(run)
    return None if about is None else PcaUsed(about["n_components"], about["variance_kept"])
