"""The rows that are looked at: public sets, one of which grows, and generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from pipeline.simulate import flip, sheets

Rows = tuple[NDArray[np.float32], NDArray[np.integer]]
PUBLIC = {
    "digits": datasets.load_digits,
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
}
COPIES = 0.02


def survey(n: int, seed: int = 0) -> Rows:
    """A table as forest surveys are: heights and distances in whole meters, angles in whole
    degrees, one of four areas as 0 and 1; 2 % of the rows are copies of others."""
    rng = np.random.default_rng(seed)
    area = rng.integers(0, 4, n)
    height = 2000 + 250 * area + 150 * rng.normal(size=n)
    water, road = rng.gamma(2, 120, n), rng.gamma(2, 700, n)
    slope, aspect = rng.gamma(3, 5, n), rng.uniform(0, 360, n)
    x = np.column_stack([height, water, road, slope, aspect]).round()
    x = np.column_stack([x, np.eye(4)[area]]).astype(np.float32)
    y = (height + 3 * slope - water / 4 > 2350).astype(np.int8)
    copies = rng.permutation(n)[: 2 * int(COPIES * n)].reshape(2, -1)
    x[copies[0]] = x[copies[1]]
    return x, flip(y, 0.1, 0.2, seed)


def sheets_as_given(n: int, seed: int = 0) -> Rows:
    """`pipeline.simulate.sheets` with labels flipped at (0.3, 0.1)."""
    x, y, _ = sheets(n, seed)
    return x, flip(y, 0.3, 0.1, seed)


def sets(rows: list[int], folder: Path | None) -> Iterator[tuple[str, Rows]]:
    """Name and rows of each set; of a folder, every .npz with X and y."""
    for name, load in PUBLIC.items():
        x, y = load(return_X_y=True)
        yield name, (x.astype(np.float32), y.astype(np.int64))
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path, allow_pickle=False) as file:
            yield path.stem, (file["X"].astype(np.float32), file["y"].astype(np.int64))
    for n in rows:
        yield "survey", survey(n)
        yield "sheets", sheets_as_given(n)
