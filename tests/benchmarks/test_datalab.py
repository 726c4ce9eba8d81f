"""The machinery of the comparison with Datalab; its results are no test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.datalab.__main__ import agreement
from benchmarks.datalab.sets import PUBLIC, sets


def test_sets_are_those_said_and_the_same_each_time(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    np.savez(tmp_path / "own.npz", X=x, y=y)
    found, again = (dict(sets([500], tmp_path)) for _ in range(2))
    assert list(found) == [*PUBLIC, "own", "survey", "sheets"]
    for name, (features, labels) in found.items():
        assert len(features) == len(labels)
        assert np.array_equal(features, again[name][0])
        assert np.array_equal(labels, again[name][1])
    survey = found["survey"][0]
    assert len(np.unique(survey, axis=0)) <= 490
    assert np.array_equal(survey, np.round(survey))


def test_agreement_is_one_where_datalab_says_the_same() -> None:
    rng = np.random.default_rng(0)
    n, distance = 50, rng.random(50)
    ours = pd.DataFrame(
        {
            "outlier_score": rng.random(n),
            "is_outlier": rng.random(n) < 0.1,
            "nearest_distance": distance,
            "near_duplicates": rng.integers(0, 2, n),
            "data_value": rng.normal(size=n),
        }
    )
    theirs = {
        "outlier": {"score": ours["outlier_score"] ** 2, "issue": ours["is_outlier"]},
        "near_duplicate": {"score": 1 - np.exp(-distance), "issue": ours["near_duplicates"] > 0},
        "data_valuation": {"score": (ours["data_value"] / n + 1) / 2},
    }
    found = agreement(ours, theirs)
    assert found.pop("value_off") < 1e-12
    assert found == pytest.approx(dict.fromkeys(found, 1.0))
    del theirs["data_valuation"]
    assert "value_rank" not in agreement(ours, theirs)
