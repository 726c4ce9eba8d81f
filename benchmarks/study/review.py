"""A whole round of a review on Fashion-MNIST: a script answers as a person would, over HTTP.

Labels are flipped, a training finds suspects, `knnoise review` asks, the script answers with the
clean label, and a second training uses what it said. The page is killed (-9) again and again
between two answers, and started anew. Beside it, as many rows drawn at random are checked.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.results import Results
from pipeline.simulate import flip

NAME, GROUPING, NOISE = "fashion_mnist", "odd", (0.2, 0.1)
TRAIN, TEST = 20_000, 10_000
BUDGET = 1_000
KILL_EVERY = 150
"""Answers after which the page is killed."""


def run(folder: Path, results: Path) -> None:
    """Go through the round where the data are there and it was not gone through yet."""
    found = Results(results, "review")
    case = f"{NAME}/{GROUPING}/{NOISE}/{TRAIN}/{BUDGET}"
    if case in found:
        return
    try:
        x, y = data.load(folder, NAME)
    except data.Absent as absent:
        print(f"review: {absent}")
        return
    rows = np.random.default_rng(5).permutation(len(x))[: TRAIN + TEST]
    clean = data.group(y, GROUPING)[rows]
    with tempfile.TemporaryDirectory() as work:
        found.add(case, _round(Path(work), x[rows], clean))


def _round(work: Path, x: NDArray[np.float32], clean: NDArray[np.int8]) -> dict[str, Any]:
    given = flip(clean[:TRAIN], *NOISE, seed=1)
    wrong = given != clean[:TRAIN]
    np.savez(work / "pool.npz", X=x[:TRAIN], y=given)
    np.savez(work / "test.npz", X=x[TRAIN:])
    before = _train(work, "before", clean)
    asked, found, kills = _review(work, clean[:TRAIN], wrong)
    report = json.loads(_knnoise("report", "--run", work / "before", "--json"))
    text = _knnoise("report", "--run", work / "before")
    after = _train(work, "after", clean, "--corrections", work / "before/review/answers.jsonl")
    rng = np.random.default_rng(6)
    drawn = rng.permutation(TRAIN)[:BUDGET]
    lines = "".join(f"{row},{clean[row]}\n" for row in drawn.tolist())
    (work / "random.csv").write_text(f"row,label\n{lines}")
    by_chance = _train(work, "chance", clean, "--corrections", work / "random.csv")
    return {
        "n_wrong": int(wrong.sum()),
        "n_suspects": report["n_label_issues"],
        "kills": kills,
        "asked": len(asked),
        "asked_twice": len(asked) - len(set(asked)),
        "found": found,
        "found_at_random": np.cumsum(wrong[drawn]).tolist(),
        "said": [line for line in text.splitlines() if line.startswith("Of ")],
        "suspects_right": _precision(work, wrong),
        "before": before,
        "after": after,
        "by_chance": by_chance,
    }


def _train(work: Path, name: str, clean: NDArray[np.int8], *more: object) -> dict[str, Any]:
    """Train and score; accuracy on test rows, and of the training rows' labels and verdicts."""
    options = ["--k", "20", "--workers", "0", "-q", "--json"]
    report = json.loads(_knnoise("train", work / "pool.npz", "--run", work / name, *options, *more))
    out = work / f"{name}.parquet"
    _knnoise("score", work / "test.npz", "--run", work / name, "--out", out, *options[2:])
    predicted = pq.read_table(out)["predicted_label"].to_numpy()
    verdicts = pq.read_table(work / name / "label_issues.parquet").to_pandas()
    return {
        "accuracy": float((predicted == clean[TRAIN:]).mean()),
        "wrong_labels": int((verdicts.given_label != clean[:TRAIN]).sum()),
        "wrong_verdicts": int((verdicts.predicted_label != clean[:TRAIN]).sum()),
        "p0": report["p0"],
        "p1": report["p1"],
        "corrections": report["corrections"],
    }


def _knnoise(*args: object) -> str:
    command = [sys.executable, "-m", "flows.cli", *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _review(
    work: Path, clean: NDArray[np.int8], wrong: NDArray[np.bool_]
) -> tuple[list[int], list[int], int]:
    """Answer until nothing is asked; rows asked about, wrong labels found after each answer, and
    how often the page was killed. A group is answered as one where all of it is alike in truth."""
    asked: list[int] = []
    found, total = [], 0
    for kills in itertools.count():
        process, url = _page(work)
        try:
            for n in itertools.count(1):
                cards = _call(f"{url}api/next?tab=script&n=1")["cards"]
                if not cards:
                    process.send_signal(signal.SIGINT)
                    return asked, found, kills
                (card,) = cards
                rows = [card["row"], *(one["row"] for one in card["alike"])]
                label = int(clean[card["row"]])
                together = len(set(clean[rows].tolist())) == 1
                _call(
                    f"{url}api/answer",
                    {
                        "id": uuid.uuid4().hex,
                        "row": card["row"],
                        "label": label,
                        "reviewer": "script",
                        "group": together,
                    },
                )
                asked.append(card["row"])
                total += int(wrong[rows if together else rows[:1]].sum())
                found.append(total)
                if n == KILL_EVERY:
                    break
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL if len(asked) < BUDGET else signal.SIGINT)
            process.wait()
    raise AssertionError("unreachable")


def _page(work: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "flows.cli", "review", "--run", str(work / "before")]
    command += ["--budget", str(BUDGET), "--workers", "0", "-q"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if address := re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line):
            return process, address[0]
    raise RuntimeError("knnoise review gave no address")


def _call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return dict(json.loads(reply.read()))


def _precision(work: Path, wrong: NDArray[np.bool_]) -> float:
    issue = pq.read_table(work / "before/label_issues.parquet")["is_label_issue"].to_numpy()
    return float(wrong[issue].mean())
