"""A seeded sample of `make fuzz`, and the harness itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.law import N_HANDMADE, SECRET, Verdict
from fuzz.supervise import verdicts

SOUND = Verdict(0, "csv", 2, "knnoise: no\n", "", 0, 0.1, 0.1, 300.0, 300.0, 9, False)


def test_hostile_sources_keep_the_law() -> None:
    found = list(verdicts(range(400), seed=0, jobs=2))
    assert sorted(verdict.number for verdict in found) == list(range(400))
    broken = [(verdict.broken(), verdict) for verdict in found if verdict.broken()]
    assert not broken, broken[:5]
    ends = {verdict.end for verdict in found}
    assert ends == {"refused", "read", "succeeded"}


def test_all_made_by_hand_are_run() -> None:
    from fuzz.handmade import HANDMADE  # which makes them

    assert len(HANDMADE) == N_HANDMADE


@pytest.mark.parametrize(
    ("change", "law"),
    [
        ({}, None),
        ({"status": 0, "error": ""}, None),
        ({"status": 4}, "exit status"),
        ({"status": -2}, "exit status"),
        ({"error": "knnoise: a\nb\n"}, "one line"),
        ({"error": ""}, "one line"),
        ({"error": "x" * 5000}, "length of the line"),
        ({"error": "Traceback (most recent call last)"}, "no traceback"),
        ({"error": "knnoise: unexpected ValueError"}, "no traceback"),
        ({"output": "{}"}, "no output"),
        ({"raw_bytes": 1}, "no raw output"),
        ({"peak_mb": 600.0}, "memory"),
        ({"cpu": 11.0}, "seconds"),
        ({"n_files": 1000}, "open files"),
        ({"canary": True}, "nothing executed"),
        ({"error": f"knnoise: {SECRET}"}, "no secret"),
    ],
)
def test_a_broken_law_is_seen(change: dict[str, object], law: str | None) -> None:
    assert replace(SOUND, **change).broken() == law  # type: ignore[arg-type]
