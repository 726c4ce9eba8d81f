"""Digests of what small trainings of every kind, and their scorings, come to: compare two states of
the code.

    .venv/bin/python -m benchmarks.digests FOLDER [KIND ...] > digests.txt

The pools are of two classes (exact, approximate without copies and with, rknn, minmax, known rates,
principal components, groups, corrections, rows without a label), of several classes, of candidate
sets (also with features made of neighbors') and with annotations. Arrays and tables are digested as
values, so how they are stored may change; of a report counts all that no clock or meter measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from flows.score import run_score
from flows.train import run_train
from storage import open_run

MEASURED = {"seconds", "peak_rss_mb", "driver_peak_rss_mb", "steps", "config", "out", "since"}
"""What a report says of its making."""


class Case(NamedTuple):
    """A table to train on, rows to score, options, and tables that options name."""

    pool: pd.DataFrame
    queries: pd.DataFrame
    options: dict[str, Any]
    beside: Mapping[str, pd.DataFrame] = MappingProxyType({})


def sheets(n: int, n_sheets: int, n_features: int, apart: float) -> npt.NDArray[np.float32]:
    """Curved 4-dimensional sheets; `apart` is the spread of their centers."""
    rng = np.random.default_rng(7)
    sheet = rng.integers(0, n_sheets, n)
    z = rng.standard_normal((n, 4))
    mix = rng.standard_normal((n_sheets, 4, n_features)) / 2
    center = apart * rng.standard_normal((n_sheets, n_features))
    x = np.tanh(np.einsum("nd,ndf->nf", z, mix[sheet])) + center[sheet]
    return (x + 0.02 * rng.standard_normal(x.shape)).astype(np.float32)


def clean(x: npt.NDArray[np.float32], n_classes: int) -> npt.NDArray[np.int64]:
    """(row,) classes that a smooth function divides."""
    level = np.sin(2 * x[:, 0]) + x[:, 1]
    return np.searchsorted(np.quantile(level, np.arange(1, n_classes) / n_classes), level)


def case(x: npt.NDArray[np.float32], n_classes: int = 2, **options: Any) -> Case:
    """Labels that are wrong by class: for a fifth of the rows on average, the next class's."""
    rng, y = np.random.default_rng(8), clean(x, n_classes)
    wrong = rng.random(len(y)) < np.where(y % 2 == 1, 0.1, 0.3)
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    kept = {"scale": "none", "preflight": "off", "workers": 0, "quiet": True, "label_column": "y"}
    n = len(x) * 4 // 5
    pool = table.assign(y=np.where(wrong, (y + 1) % n_classes, y))[:n]
    return Case(pool, table[n:], {**kept, **options})


def sets(x: npt.NDArray[np.float32], **options: Any) -> Case:
    """Candidate sets of six classes, of which a tenth lack the true one."""
    made, rng = case(x, 6, candidates="|", **options), np.random.default_rng(9)
    there = rng.random((len(made.pool), 6)) < 0.3
    there[np.arange(len(there)), made.pool["y"]] = True
    said = ["|".join(f"c{code}" for code in np.flatnonzero(row)) for row in there]
    return made._replace(pool=made.pool.assign(y=said))


def annotated(x: npt.NDArray[np.float32], n_classes: int, **options: Any) -> Case:
    """One to three labels of each row by four annotators."""
    made, rng = case(x, n_classes, **options), np.random.default_rng(9)
    y = clean(x, n_classes)[: len(made.pool)]
    row = np.repeat(np.arange(len(y)), rng.integers(1, 4, len(y)))
    who = rng.integers(0, 4, len(row))
    wrong = rng.random(len(row)) < np.array([0.05, 0.1, 0.2, 0.4])[who]
    label = np.where(wrong, (y[row] + 1) % n_classes, y[row])
    votes = pd.DataFrame({"row": row, "annotator": who, "label": label})
    votes = votes.drop_duplicates(["row", "annotator"])
    pool = made.pool.drop(columns="y")
    less = {key: value for key, value in made.options.items() if key != "label_column"}
    return made._replace(pool=pool, options=less, beside={"annotations": votes})


def by_site(made: Case) -> Case:
    site = np.random.default_rng(9).choice(["a", "b", "c"], len(made.pool))
    return made._replace(pool=made.pool.assign(site=site), options={**made.options, "by": "site"})


def corrected(made: Case) -> Case:
    answers = made.pool.iloc[::20].reset_index()[["index", "y"]].set_axis(["row", "label"], axis=1)
    answers.loc[::2, "label"] = 1 - answers.loc[::2, "label"]
    return made._replace(beside={"corrections": answers})


def unlabeled(made: Case) -> Case:
    y = made.pool["y"].astype("float").where(np.arange(len(made.pool)) % 3 > 0)
    return made._replace(
        pool=made.pool.assign(y=y), options={**made.options, "unlabeled": "predict"}
    )


def cases() -> dict[str, Case]:
    few, apart, near = sheets(3_000, 2, 8, 2.0), sheets(30_000, 3, 8, 20.0), sheets(10_000, 1, 6, 0)
    cut = {"builder": "join", "block_rows": 2_000}
    return {
        "exact": case(few, builder="exact", publish_review=20),
        "exact-blocks": case(near, builder="exact", block_rows=2_000),
        "no-copies": case(apart, builder="join", block_rows=8_000),
        "copies": case(sheets(30_000, 1, 12, 0.0), builder="join", block_rows=5_000),
        "rknn": case(few, rule="rknn"),
        "minmax": case(few, noise="minmax", k=30),
        "known": case(few, p0=0.3, p1=0.1),
        "pca": case(near, pca=4, **cut),
        "groups": by_site(case(near, **cut)),
        "corrections": corrected(case(near, **cut)),
        "unlabeled": unlabeled(case(near, **cut)),
        "classes": by_site(case(near, 5, **cut, publish_review=20)),
        "classes-no-copies": case(apart[:9_000], 5, builder="join", block_rows=3_000),
        "sets": sets(near, **cut),
        "sets-averaged": sets(few, candidate_features="averaged"),
        "annotations": annotated(near, 2, **cut),
        "annotations-classes": annotated(few, 3),
    }


def digest(*arrays: npt.NDArray[Any]) -> str:
    state = blake2b(digest_size=10)
    for array in arrays:
        plain = np.array([str(v) for v in array]) if array.dtype == object else array
        state.update(str(plain.dtype).encode() + str(plain.shape).encode())
        state.update(np.ascontiguousarray(plain).tobytes())
    return state.hexdigest()


def table(path: Path) -> str:
    found = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    return digest(*(found[name].to_numpy() for name in found.columns))


def told(report: dict[str, Any]) -> str:
    """Digest of what a report says of its rows."""
    plain = {name: value for name, value in report.items() if name not in MEASURED}
    if isinstance(inner := plain.get("unlabeled"), dict):
        plain["unlabeled"] = told(inner)
    text = json.dumps(plain, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=10).hexdigest()


def digests(folder: Path, name: str, made: Case) -> Iterator[tuple[str, str]]:
    """What was digested, and its digest."""
    source, queries = folder / f"{name}.parquet", folder / f"{name}-queries.parquet"
    run, out = folder / name, folder / f"{name}-scores.parquet"
    made.pool.to_parquet(source, index=False)
    made.queries.to_parquet(queries, index=False)
    options = dict(made.options)
    for option, beside in made.beside.items():
        options[option] = str(folder / f"{name}-{option}.csv")
        beside.to_csv(options[option], index=False)
    yield "report", told(run_train(str(source), run=str(run), **options))
    for node in sorted(open_run(str(run)).subtree, key=lambda node: node.path):
        arrays = [node[key].to_numpy() for key in sorted(node.data_vars)]
        if arrays:
            yield node.path, digest(*arrays)
    for path in sorted([*run.glob("*.parquet"), *run.glob("review/list.csv")]):
        yield path.name, table(path)
    scored = run_score(str(queries), run=str(run), out=str(out), workers=0, quiet=True)
    yield "scored", told(scored)
    yield "scores", table(out)


def main(folder: Path, kinds: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in cases().items():
        if not kinds or name in kinds:
            for what, found in digests(folder, name, made):
                print(name, what, found, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
