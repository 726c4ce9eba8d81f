"""One table of rows and annotations: features repeated on the line of each annotation."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from runs import fit

from flows.cli import main
from storage.sources.blocks import feature_hash

N, ANNOTATORS = 600, 5
LABELS = ("ill", "well")


def tables(folder: Path) -> tuple[Path, Path, Path]:
    """Features by row, annotations by line, and both in one table, in shuffled order."""
    rng = np.random.default_rng(3)
    clean = rng.integers(0, 2, N)
    x = pd.DataFrame(rng.normal(size=(N, 3)), columns=["age", "pulse", "sleep"]).round(4)
    x["age"] += 5.0 * clean
    rows = x.assign(id=[f"p{i}" for i in rng.permutation(N)])
    at = np.repeat(np.arange(N), 3)
    who = (rng.permutation(N)[at] + np.tile(np.arange(3), N)) % ANNOTATORS
    said = np.where(rng.random(len(at)) < 0.15 + 0.05 * who, 1 - clean[at], clean[at])
    votes = pd.DataFrame({"id": rows["id"].to_numpy()[at], "annotator": [f"a{w}" for w in who]})
    votes["label"] = np.array(LABELS)[said]
    order = rng.permutation(len(votes))
    whole = votes.merge(rows, on="id").iloc[order]
    first = whole.drop_duplicates("id")[["id", "age", "pulse", "sleep"]]
    first.to_csv(folder / "rows.csv", index=False)
    votes.iloc[order].to_csv(folder / "votes.csv", index=False)
    whole.to_csv(folder / "whole.csv", index=False)
    return folder / "rows.csv", folder / "votes.csv", folder / "whole.csv"


def test_one_table_is_as_good_as_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, votes, whole = tables(tmp_path)
    two = fit(rows, tmp_path / "two", id_column="id", annotations=str(votes))
    one = fit(whole, tmp_path / "one", id_column="id", annotations=str(whole))
    same = ("n_rows", "n_features", "k", "p0", "p1", "n_label_issues", "class_counts")
    assert {name: one[name] for name in same} == {name: two[name] for name in same}
    assert one["annotators"]["annotators"] == two["annotators"]["annotators"]
    assert one["n_repeated"] == 2 * N
    left, right = (pd.read_parquet(tmp_path / run / "consensus.parquet") for run in ("one", "two"))
    columns = [name for name in right if name != "row"]
    pd.testing.assert_frame_equal(left[columns], right[columns])
    lines = pd.read_csv(whole)
    assert (lines["id"].to_numpy()[left["row"]] == left["id"]).all()
    assert main(["report", "--run", str(tmp_path / "one")]) == 0
    assert "lines that repeat a row: 1,200" in capsys.readouterr().out


def test_rows_whose_lines_differ_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, whole = tables(tmp_path)
    lines = pd.read_csv(whole)
    again = int(np.flatnonzero(lines["id"].duplicated())[7])
    first = int(np.flatnonzero(lines["id"] == lines["id"][again])[0])
    lines.loc[again, "pulse"] += 1
    lines.to_csv(whole, index=False)
    words = ["--id-column", "id", "--annotations", str(whole), "--run", str(tmp_path / "run")]
    assert main(["train", str(whole), *words, "--workers", "0"]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    name = lines["id"][again]
    assert f"id {name!r} has other features at row {again:,} than at row {first:,}" in told


def test_rows_without_any_label_are_predicted_once(tmp_path: Path) -> None:
    _, _, whole = tables(tmp_path)
    lines = pd.read_csv(whole)
    lines.loc[lines["id"].isin(["p5", "p6"]), "label"] = None
    lines.to_csv(whole, index=False)
    more = {"id_column": "id", "annotations": str(whole), "unlabeled": "predict"}
    found = fit(whole, tmp_path / "run", **more)
    assert (found["n_rows"], found["n_unlabeled"]) == (N - 2, 2)


def test_check_reads_the_votes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, votes, whole = tables(tmp_path)
    for source, table in ((rows, votes), (whole, whole)):
        words = ["--id-column", "id", "--annotations", str(table)]
        assert main(["check", str(source), *words]) == 0
        told = capsys.readouterr().out
        assert "features: 3" in told
        assert "1,800 labels of 600 rows by 5 annotators (3.0 per row)" in told
        assert "label 'label': 'ill' " in told
        assert "ids occur twice" not in told
        assert "exact copies" not in told  # lines that repeat a row are no copies of it
        options = f"--id-column id --annotations {table} --run run"
        assert told.splitlines()[-1] == f"try: knnoise train {source} {options}"
    lines = pd.read_csv(votes)
    lines[lines["id"] != "p7"].to_csv(votes, index=False)
    words = ["--id-column", "id", "--annotations", str(votes)]
    assert main(["check", str(rows), *words]) == 0
    told = capsys.readouterr().out
    assert "look: 1 row has no label; give --unlabeled predict" in told
    assert "--unlabeled predict" in told.splitlines()[-1]  # without which training refuses
    words[-1] = str(whole)
    assert main(["check", str(rows), "--id-column", "id", "--annotations", str(rows)]) == 2
    assert "no column 'annotator'" in capsys.readouterr().err
    assert main(["check", str(whole), *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label_name"] == "label"


def test_hashes_tell_rows_apart_and_gaps_alike() -> None:
    x = np.random.default_rng(0).integers(0, 3, (4000, 6)).astype(np.float64)
    x[::7, 2], x[::5, 1] = np.nan, -0.0
    found = feature_hash(x)
    alike = {tuple(None if np.isnan(v) else v + 0.0 for v in row) for row in x}
    assert len(np.unique(found)) == len(alike)
    assert np.array_equal(feature_hash(x[::-1]), found[::-1])


def test_reviewed_in_truth_and_trained_again(tmp_path: Path) -> None:
    """The command's own page: a card shows its row's line; what is answered is the consensus."""
    _, _, whole = tables(tmp_path)
    run, log = tmp_path / "run", tmp_path / "answers.jsonl"
    options = {"id_column": "id", "annotations": str(whole)}
    fit(whole, run, **options)
    command = [sys.executable, "-m", "flows.cli", "review", "--run", str(run), "--workers", "0"]
    command += ["-q", "--budget", "10", "--answers", str(log)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = (re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line) for line in process.stderr)
        url = next(found[0] for found in said if found)
        (card,) = httpx.get(url + "api/next", params={"tab": "t"}, timeout=60).json()["cards"]
        lines = pd.read_csv(whole)
        line = lines.iloc[card["row"]]
        cells = dict(zip(lines.columns, card["content"]["cells"], strict=True))
        assert cells["id"] == line["id"]
        for name in ("age", "pulse", "sleep"):
            assert float(cells[name]) == pytest.approx(line[name], rel=1e-5)
        answer = {"id": uuid.uuid4().hex, "row": card["row"], "label": 1, "reviewer": "eve"}
        assert httpx.post(url + "api/answer", json=answer, timeout=60).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert "--corrections" in out
    again = fit(whole, tmp_path / "checked", **options, corrections=str(log))
    assert again["corrections"]["n_rows"] == 1
    found = pd.read_parquet(tmp_path / "checked" / "consensus.parquet").set_index("row")
    assert found.loc[card["row"], "id"] == line["id"]
    assert found.loc[card["row"], "given_label"] == LABELS[1]
    by_id = tmp_path / "by_id.csv"
    by_id.write_text(f"id,label\n{line['id']},{LABELS[1]}\n")
    assert fit(whole, tmp_path / "by_id", **options, corrections=str(by_id))["p0"] == again["p0"]
    assert found.loc[card["row"], "consensus_label"] == LABELS[1]
    assert found.loc[card["row"], "certainty"] == 1
