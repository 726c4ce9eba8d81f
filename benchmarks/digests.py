"""Digests of what six small trainings and their scorings come to: compare two states of the code.

    .venv/bin/python -m benchmarks.digests FOLDER > digests.txt

The pools: exact; approximate without copies; approximate with copies; rknn; minmax; known rates.
Arrays are digested as values, so how they are stored and recorded may change.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from flows.score import score
from flows.train import train
from storage import open_run


def sheets(n: int, n_sheets: int, n_features: int, apart: float) -> np.ndarray:
    """Curved 4-dimensional sheets; `apart` is the spread of their centers."""
    rng = np.random.default_rng(7)
    sheet = rng.integers(0, n_sheets, n)
    z = rng.standard_normal((n, 4))
    mix = rng.standard_normal((n_sheets, 4, n_features)) / 2
    center = apart * rng.standard_normal((n_sheets, n_features))
    x = np.tanh(np.einsum("nd,ndf->nf", z, mix[sheet])) + center[sheet]
    return (x + 0.02 * rng.standard_normal(x.shape)).astype(np.float32)


def pool(folder: Path, name: str, x: np.ndarray) -> tuple[str, str]:
    rng = np.random.default_rng(8)
    y = (np.sin(2 * x[:, 0]) + x[:, 1] > 0).astype(np.int64)
    flip = rng.random(len(y)) < np.where(y == 1, 0.1, 0.3)
    half = len(x) * 4 // 5
    train_file, test_file = folder / f"{name}.npz", folder / f"{name}-test.npy"
    np.savez(train_file, X=x[:half], y=np.where(flip, 1 - y, y)[:half])
    np.save(test_file, x[half:])
    return str(train_file), str(test_file)


CASES = {
    "exact": (sheets(3_000, 2, 8, 2.0), {"builder": "exact"}),
    "no-copies": (sheets(30_000, 3, 8, 20.0), {"builder": "join", "block_rows": 8_000}),
    "copies": (sheets(30_000, 1, 12, 0.0), {"builder": "join", "block_rows": 5_000}),
    "rknn": (sheets(3_000, 2, 8, 2.0), {"rule": "rknn"}),
    "minmax": (sheets(3_000, 2, 8, 2.0), {"noise": "minmax", "k": 30}),
    "known": (sheets(3_000, 2, 8, 2.0), {"p0": 0.3, "p1": 0.1}),
}


def digest(*arrays: np.ndarray) -> str:
    state = blake2b(digest_size=10)
    for array in arrays:
        state.update(str(array.dtype).encode() + str(array.shape).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def table(path: Path) -> str:
    found = pq.read_table(path)
    return digest(*(found[name].to_numpy(zero_copy_only=False) for name in found.column_names))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (x, options) in CASES.items():
        source, queries = pool(folder, name, x)
        run, out = folder / f"run-{name}", folder / f"{name}.parquet"
        report = train.fn(source, str(run), workers=0, quiet=True, scale="none", **options)
        score.fn(queries, str(run), str(out), workers=0, quiet=True)
        rates = [report["p0"], report["p1"], report["threshold"], *report["p0_interval"]]
        for node in sorted(open_run(str(run)).subtree, key=lambda node: node.path):
            arrays = [node[key].to_numpy() for key in sorted(node.data_vars)]
            if arrays:
                print(name, node.path, digest(*arrays))
        print(name, "rates", " ".join(float(rate).hex() for rate in rates))
        print(name, "label_issues", table(run / "label_issues.parquet"))
        print(name, "scores", table(out), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
