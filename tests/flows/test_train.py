"""Training end to end in one process: what comes out, what is refused, what is resumed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from runs import PoolWriter, fit, results
from strategies import generators

from benchmarks.study.beside import select
from flows.engine.collectives.sent import Inbox, of_owners
from flows.engine.job import Output
from flows.engine.parts import Part
from flows.report.content import load
from flows.report.findings import copied_warning
from flows.report.kinds.two import TrainReport, served
from flows.report.page.render import percent
from flows.score import run_score
from flows.steps.ingest.pool import _Reading as Pass
from flows.steps.ingest.pool import _Write
from flows.steps.labels.rknn import deal
from knnoise.result import Training
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.knn.lists import Neighbors
from pipeline.knn.lots import lots
from pipeline.methods.rknn import GRID, predict
from storage import ClusterError, InputError, Run, StorageError, open_run
from storage.arrays.exchange import Exchange, Slice
from storage.files.location import Location
from storage.runs.pool import pool_chunk_rows
from storage.sources import files as source_files

HERE: dict[str, Any] = {"workers": 0, "quiet": True}


def brute_graph(x: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    distance = np.sqrt(np.square(x[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    np.fill_diagonal(distance, np.inf)
    order = np.lexsort(
        (np.broadcast_to(lots(np.arange(len(x))), distance.shape), distance.astype("f4"))
    )
    return order[:, :k]


def test_exact_minmax_is_algorithm_2(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    report = fit(source, tmp_path / "run", noise="minmax", builder="exact", block_rows=150)
    data = np.load(source)
    others = brute_graph(data["X"], 9)
    eta = (data["y"] + data["y"][others].sum(axis=1)) / 10
    assert report["n_blocks"] > 1
    assert (report["p0"], report["p1"]) == (eta.min(), 1 - eta.max())
    assert report["threshold"] == pytest.approx((1 + eta.min() - (1 - eta.max())) / 2, abs=1e-15)


@pytest.mark.parametrize("tied", [False, True])
def test_exact_graph_is_brute_force(pool: PoolWriter, tmp_path: Path, tied: bool) -> None:
    source = pool()
    if tied:
        data = np.load(source)
        np.savez(source, X=np.round(data["X"]), y=data["y"])
    fit(source, tmp_path / "run", builder="exact", block_rows=150)
    tree = open_run(str(tmp_path / "run"))
    graph = xr.concat([block.dataset for block in tree["graph"].children.values()], "row")
    order = np.argsort(graph["row"].values)
    assert np.array_equal(graph["row"].values[order], np.arange(600))
    assert np.array_equal(graph["neighbor"].values[order], brute_graph(np.load(source)["X"], 30))


def test_lists_of_rows_between_two_blocks_stay_theirs(tmp_path: Path) -> None:
    """On a lattice rows lie just between centers; each must be at home in one block only."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 60, (6000, 1)).astype(np.float32)
    np.savez(tmp_path / "pool.npz", X=x, y=rng.integers(0, 2, 6000))
    options = {"k": 5, "block_rows": 300, "builder": "join", "target_recall": 1.0}
    fit(tmp_path / "pool.npz", tmp_path / "run", **options)
    for block in open_run(str(tmp_path / "run"))["graph"].children.values():
        there = block["neighbor"].values >= 0
        apart = np.abs(x[block["neighbor"].values, 0] - x[block["row"].values])
        assert np.array_equal(block["distance"].values[there], apart[there])


def test_lists_sent_to_the_wrong_block_are_refused(tmp_path: Path) -> None:
    exchange = Exchange(Location.of(tmp_path), "lists")
    lists = Neighbors(np.array([[1]]), np.ones((1, 1), np.float32), np.ones((1, 1), np.int8))
    exchange.send("a", np.zeros(1, np.int64), 1, of_owners(np.array([7]), lists))
    with pytest.raises(StorageError, match="not at home"):
        Inbox(exchange, [Slice("a", 0, 1)]).lists(np.array([3, 9]), 1)


def test_rknn_is_the_papers_choice_and_rule(pool: PoolWriter, tmp_path: Path) -> None:
    """Sizes, rates and labels of a distributed run against the same kernels on one whole graph."""
    source = pool(n=900)
    report = fit(source, tmp_path / "run", rule="rknn", k=None, builder="exact", block_rows=400)
    data, longest = np.load(source), 160
    neighbor, fold = brute_graph(data["X"], longest), deal(np.arange(900), 0)
    chosen = select(neighbor, data["y"], fold, GRID)
    assert report["n_blocks"] > 1
    assert (report["k"], report["rate_k"]) == (chosen.k, chosen.rate_neighbors + 1)
    assert np.allclose(report["folds"]["score"], chosen.score)
    assert report["folds"]["shortfall"] == chosen.shortfall
    own = (data["y"] + data["y"][neighbor[:, : chosen.rate_neighbors]].sum(axis=1)) / (
        chosen.rate_neighbors + 1
    )
    assert (report["p0"], report["p1"]) == (own.min(), 1 - own.max())
    table = pd.read_parquet(tmp_path / "run" / "label_issues.parquet")
    eta = data["y"][neighbor[:, : chosen.k]].mean(axis=1)
    assert np.array_equal(table["predicted_label"], predict(eta, own.min(), 1 - own.max()))
    assert report["estimates"]["crossfit"]["method"] == "crossfit"


def test_label_issues_leave_the_row_itself_out(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    report = fit(source, tmp_path / "run")
    data, table = np.load(source), pd.read_parquet(tmp_path / "run" / "label_issues.parquet")
    eta = data["y"][brute_graph(data["X"], 10)].mean(axis=1)
    assert list(table.columns[:5]) == [
        "row",
        "given_label",
        "predicted_label",
        "label_quality",
        "is_label_issue",
    ]
    assert np.array_equal(table["given_label"], data["y"])
    assert np.allclose(table["eta_corr"], eta)
    assert table["label_quality"].between(0, 1).all()
    assert table["is_label_issue"].sum() == report["n_label_issues"] > 0
    assert report["share_wrong"] == pytest.approx((1 - table["label_quality"]).mean(), abs=1e-5)


def test_finished_run_does_nothing_again(pool: PoolWriter, tmp_path: Path) -> None:
    source, run = pool(), tmp_path / "run"
    first = fit(source, run)
    stamps = {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.is_file()}
    assert fit(source, run) == first
    assert {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.is_file()} == stamps


def test_a_finished_run_may_be_read_only(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run, access = pool(), tmp_path / "run", os.access
    first = fit(source, run)
    monkeypatch.setattr("os.access", lambda path, mode: access(path, mode) and not mode & os.W_OK)
    assert fit(source, run) == first
    with pytest.raises(InputError, match="k was 10 and is 12"):
        fit(source, run, k=12)
    (run / "report.json").unlink()
    with pytest.raises(InputError, match=r"run: read-only, .*; copy the run to a folder"):
        fit(source, run)


def test_workers_do_not_change_a_bit(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool(1500)
    fit(source, tmp_path / "here", block_rows=300, builder="join")
    fit(source, tmp_path / "two", block_rows=300, builder="join", workers=2)
    assert results(tmp_path / "here") == results(tmp_path / "two")


def test_other_parameters_are_refused(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    fit(source, tmp_path / "run")
    with pytest.raises(InputError, match="k was 10 and is 12"):
        fit(source, tmp_path / "run", k=12)


def test_changed_input_is_refused(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    fit(source, tmp_path / "run")
    pool(seed=1)
    with pytest.raises(InputError, match=r"pool\.npz has other content"):
        fit(source, tmp_path / "run")


def test_bad_input_leaves_nothing(tmp_path: Path) -> None:
    x = np.zeros((100, 2), np.float32)
    x[70, 1] = np.nan
    np.savez(tmp_path / "bad.npz", X=x, y=np.arange(100) % 2)
    with pytest.raises(InputError, match=r"first at row 70"):
        fit(tmp_path / "bad.npz", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bad_row_at_the_end_leaves_the_folders_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = _Write.do

    def slowly(self: _Write, run: Run, part: Part[None]) -> Output:
        time.sleep(0.2)
        return write(self, run, part)

    monkeypatch.setattr(_Write, "do", slowly)
    n, source = 2 * pool_chunk_rows(500) + 50, tmp_path / "pool.csv"
    head = ",".join(f"x{i}" for i in range(500)) + ",y\n"
    rows = "".join(f"{k % 7},{'0,' * 499}{k % 2}\n" for k in range(n))
    source.write_text(f"{head}{rows}oops,{'0,' * 499}1\n")
    with pytest.raises(InputError, match=f"'oops' at row {n}"):
        fit(source, tmp_path / "a" / "run", label_column="y", preflight="off")
    time.sleep(0.5)  # nobody writes any more
    assert {file.name for file in tmp_path.iterdir()} == {"pool.csv"}


def tables(folder: Path, seed: int) -> dict[str, Path]:
    """One pool as sources of all kinds, each of the same size for every seed."""
    x = np.random.default_rng(seed).integers(100, 999, size=(300, 3))
    frame = pd.DataFrame(x, columns=list("abc")).assign(y=np.arange(300) % 2)
    folder.mkdir()
    found = {kind: folder / f"pool.{kind}" for kind in ("csv", "xlsx", "npz", "zarr")}
    frame.to_csv(found["csv"], index=False)
    frame.to_excel(found["xlsx"], index=False)
    np.savez(found["npz"], X=x.astype(np.float32), y=frame["y"])
    group = zarr.open_group(found["zarr"], mode="w")
    group.create_array("x", data=x.astype(np.float32), chunks=(100, 3), compressors=None)
    group.create_array("y", data=frame["y"].to_numpy(np.int8))
    found["folder"] = folder / "tables"
    found["folder"].mkdir()
    for part in range(3):
        frame[part::3].to_parquet(found["folder"] / f"{part}.parquet")
    return found


def exchange(old: Path, new: Path) -> None:
    """Put other files in the place of those of a source, of equal times."""
    files = [old] if old.is_file() else sorted(file for file in old.rglob("*") if file.is_file())
    for file in files:
        other = new if old.is_file() else new / file.relative_to(old)
        times = file.stat()
        file.write_bytes(other.read_bytes())
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


TABLE = {"label_column": "y"}
KINDS: dict[str, dict[str, Any]] = {"csv": TABLE, "xlsx": TABLE, "folder": TABLE, "npz": {}}
KINDS["zarr"] = {}


@pytest.mark.parametrize("kind", KINDS)
def test_source_written_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, other = (tables(tmp_path / name, seed)[kind] for name, seed in (("a", 0), ("b", 1)))
    write, more, run = _Write.do, KINDS[kind], tmp_path / "run"

    def exchanged(self: _Write, run: Run, part: Part[None]) -> Output:
        exchange(source, other)
        return write(self, run, part)

    with monkeypatch.context() as patch:
        patch.setattr(_Write, "do", exchanged)
        with pytest.raises(InputError, match="was written while it was read; run again when"):
            fit(source, run, **more)
        assert not run.exists()
    first = fit(source, run, **more)
    assert first["p0"] == fit(other, tmp_path / "other", **more)["p0"]
    queries = tables(tmp_path / "c", 2)[kind]
    with monkeypatch.context() as patch:
        patch.setattr(_Write, "do", exchanged)
        source = queries
        with pytest.raises(InputError, match="was written while it was read"):
            run_score(str(queries), run=str(run), out=str(tmp_path / "s.csv"), **HERE)
    assert not (run / "scores").exists()


def test_appended_rows_are_none_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, write = tables(tmp_path / "a", 0)["csv"], _Write.do

    def appended(self: _Write, run: Run, part: Part[None]) -> Output:
        with source.open("a") as file:
            file.write("1,2,3,1\n")
        return write(self, run, part)

    monkeypatch.setattr(_Write, "do", appended)
    with pytest.raises(InputError, match=r"pool\.csv was written while it was read"):
        fit(source, tmp_path / "run", label_column="y")


@pytest.mark.parametrize("young", [0.0, 2.0])
def test_killed_while_reading_and_other_content_of_equal_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young: float
) -> None:
    source, other = (tables(tmp_path / name, seed)["csv"] for name, seed in (("a", 0), ("b", 1)))
    run = tmp_path / "run"
    kept = source.read_bytes()

    def killed(self: Pass, *args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(source_files, "YOUNG_SECONDS", young)
    with monkeypatch.context() as patch:
        patch.setattr(Pass, "check", killed)
        with pytest.raises(ClusterError, match="interrupted"):
            fit(source, run, label_column="y")
    assert (run / "ledger/ingest-pool").exists()
    exchange(source, other)
    with pytest.raises(InputError, match=r"pool\.csv has other content than before"):
        fit(source, run, label_column="y")
    source.write_bytes(kept)
    fit(source, run, label_column="y")
    fit(source, tmp_path / "whole", label_column="y")
    assert results(run) == results(tmp_path / "whole")


def test_too_few_rows_are_refused(pool: PoolWriter, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few for 50 neighbors"):
        fit(pool(n=50), tmp_path / "run", k=50)
    np.savez(tmp_path / "5.npz", X=np.eye(5, dtype=np.float32), y=[0, 1, 0, 1, 0])
    with pytest.raises(InputError, match="5 rows are too few: at least 6 are needed"):
        fit(tmp_path / "5.npz", tmp_path / "run", noise="minmax")
    assert not (tmp_path / "run").exists()
    assert fit(pool(n=6), tmp_path / "six", k=None, noise="minmax")["support"] == "unsupported"


def test_foreign_folder_is_refused(pool: PoolWriter, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not a knnoise run"):
        fit(pool(), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"


def test_run_in_an_object_store(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    Location.of("memory://bucket/run").remove()
    report = fit(source, "memory://bucket/run", block_rows=150)
    assert report["p0"] == fit(source, tmp_path / "run", block_rows=150)["p0"]
    assert Location.of("memory://bucket/run").exists("label_issues.parquet")


def gauss(tmp_path: Path) -> Path:
    """Isotropic rows, whose neighbors no cut keeps together."""
    x = np.random.default_rng(0).normal(size=(3000, 24)).astype(np.float32)
    np.savez(tmp_path / "gauss.npz", X=x, y=(x[:, 0] > 0).astype(np.int8))
    return tmp_path / "gauss.npz"


def test_low_recall_is_widened(tmp_path: Path) -> None:
    source, options = gauss(tmp_path), {"block_rows": 100, "builder": "join"}
    report = fit(source, tmp_path / "run", target_recall=1.0, **options)
    assert "widened" in report["notes"][0]
    assert report["n_blocks"] < 30
    assert report["recall"] > 0.999
    assert fit(source, tmp_path / "run", target_recall=1.0, **options) == report


def test_pynndescent_builds_the_lists_of_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.graph import descent  # here: its kernels compile for long

    build, built = descent.build, []

    def counted(x: npt.NDArray[np.float32], *args: Any, **how: Any) -> npt.NDArray[np.int32]:
        built.append(len(x))
        return build(x, *args, **how)

    monkeypatch.setattr(descent, "build", counted)
    runs = tmp_path / "run", tmp_path / "again"
    options = {"builder": "pynndescent", "block_rows": 1500}
    one, again = (fit(gauss(tmp_path), run, **options) for run in runs)
    assert len(built) == 2 * one["n_blocks"] > 2
    assert one["recall"] >= 0.95
    assert again["builder"] == "pynndescent"
    assert results(runs[0]) == results(runs[1])


def test_missed_recall_is_warned_of_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.steps.graph.building.TRIES", 1)
    run = tmp_path / "run"
    report = fit(gauss(tmp_path), run, block_rows=100, builder="join", target_recall=1.0)
    assert "below the target" in report["warnings"][0]
    assert "WARNING" in (run / "report.txt").read_text()
    assert open_run(str(run)).attrs["warnings"] == report["warnings"]


def test_results_open_lazily_with_names_and_provenance(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    report = fit(source, tmp_path / "run")
    tree = open_run(str(tmp_path / "run"))
    assert tree["pool/x"].dims == ("row", "feature")
    assert "row" in tree["labels"].coords
    assert {"row", "source_id"} <= set(tree["pool"].coords)
    assert tree["pool/x"].chunks is not None
    assert tree["labels/label_quality"].attrs["description"].endswith("low is bad")
    assert tree.attrs["p0"] == report["p0"]
    assert tree.attrs["config"]["versions"]["numpy"] == np.__version__
    assert "scikit-learn" in tree.attrs["config"]["versions"]  # whose trees are heard
    opened = xr.open_zarr(tmp_path / "run" / "results.zarr", group="pool", consolidated=False)
    assert np.array_equal(opened["x"].values, np.load(source)["X"])


def test_report_files_agree(pool: PoolWriter, tmp_path: Path) -> None:
    report = fit(pool(), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "report.json").read_text()) == report


def test_k_is_chosen_by_the_leave_one_out_score(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    report = fit(source, tmp_path / "run", k=None)
    data, curve = np.load(source), report["k_curve"]
    near = brute_graph(data["X"], 100)
    score = [np.mean((data["y"] - data["y"][near[:, :k]].mean(axis=1)) ** 2) for k in curve["grid"]]
    assert np.allclose(curve["score"], score)
    assert report["k"] == curve["grid"][int(np.argmin(score))]


@pytest.mark.parametrize("objective", ["balanced", "1:4"])
def test_the_threshold_serves_the_objective(
    pool: PoolWriter, tmp_path: Path, objective: str
) -> None:
    """As the estimator's; scored so, and said in the report."""
    source = pool(n=1500)
    options = {"k": None, "builder": "exact", "scale": "none", "objective": objective}
    report = fit(source, tmp_path / "run", **options)
    data = np.load(source)
    twin = RobustKNeighborsClassifier(metric="euclidean", builder="exact", objective=objective)
    twin.fit(data["X"], data["y"])
    assert (report["threshold"], report["decision"]["objective"]) == (twin.threshold_, objective)
    run_score(source, tmp_path / "run", tmp_path / "out.parquet", workers=0, quiet=True)
    scores = pd.read_parquet(tmp_path / "out.parquet")
    assert np.array_equal(scores["predicted_label"], twin.predict(data["X"]))
    np.testing.assert_allclose(scores["posterior"], twin.predict_proba(data["X"])[:, 1], atol=1e-6)
    said = (tmp_path / "run" / "report.txt").read_text()
    costs = "costs of 1:4 for a true well taken for sick and a true sick taken for well"
    named = TrainReport.model_validate({**report, "label_values": ["well", "sick"]})
    assert f"serves {'balanced accuracy' if objective == 'balanced' else costs}" in served(named)
    assert f"serves {'balanced accuracy' if objective == 'balanced' else 'costs of 1:4'}" in said
    with pytest.raises(InputError, match="rknn decides its own way"):
        fit(source, tmp_path / "other", objective=objective, rule="rknn")
    with pytest.raises(InputError, match="--objective '0:1': need accuracy"):
        fit(source, tmp_path / "other", objective="0:1")


@given(rng=generators(), c=st.integers(2, 6))
def test_no_more_labels_are_wrong_than_any_rule_contradicts(
    rng: np.random.Generator, c: int
) -> None:
    """But for how far another label of a class is ahead of its own."""
    share, matrix = rng.dirichlet(np.ones(c)), rng.dirichlet(np.full(c, rng.uniform(0.2, 3.0)), c)
    wrong = share @ (1.0 - np.diag(matrix))
    ahead = share @ (matrix.max(axis=1) - np.diag(matrix))
    assert wrong <= 1.0 - (share @ matrix).max() + ahead + 1e-12


def test_the_share_of_wrong_labels_allows_for_mistakes_at_the_boundary(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, 3000)
    x = rng.normal(size=(3000, 2)) + 2.4 * clean[:, None] * [1, 0]
    wrong = rng.random(3000) < 0.45 * np.exp(-np.square(x[:, 0] - 1.2))
    np.savez(tmp_path / "p.npz", X=x.astype(np.float32), y=clean ^ wrong)
    fit(tmp_path / "p.npz", tmp_path / "run", builder="exact")
    report = load(Run.of(str(tmp_path / "run")))
    share, (low, high) = report.share_wrong, report.share_wrong_interval
    assert 0.6 * wrong.mean() < share < wrong.mean()  # rates are those of pure neighborhoods
    assert low <= wrong.mean() <= high
    said = f"labels wrong in all: {share:.1%}, 95 % interval {low:.1%} to {high:.1%}"
    assert said in (tmp_path / "run" / "report.txt").read_text()
    summary = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (summary["share_wrong"], summary["share_wrong_interval"]) == (share, [low, high])
    found = Training(str(tmp_path / "run"), summary)
    assert found.share_wrong.tolist() == [share, low, high]
    assert f"<b>{percent(share)}</b><span>{percent(low)} to {percent(high)}" in found.report()
    assert report.n_contradicted is not None
    against = report.n_contradicted / report.n_rows
    assert against < high < against + 0.02
    of_earlier = report.model_copy(update={"n_contradicted": None})
    unsure = report.model_copy(update={"class_support": ["unsupported"] * 2})
    for other in (of_earlier, unsure):
        assert other.share_wrong_interval is not None
        assert other.share_wrong_interval[1] > high
    assert not copied_warning(report)
    rates = {"class_noise": [0.2, 0.3], "class_noise_interval": [(0.1, 0.3), (0.2, 0.4)]}
    copied = report.model_copy(update={**rates, "clean_prior": [0.5, 0.5], "n_wrong": 3.0})
    assert copied.share_wrong == pytest.approx(0.25)  # what copies vouch for is no share
    assert copied.share_wrong_interval == pytest.approx((0.15, 0.35))
    warning = copied_warning(copied)[0]
    assert "15.0% of the labels are wrong at least" in warning
    assert "other rows of one person" in warning


def test_known_rates_are_taken_at_their_word(pool: PoolWriter, tmp_path: Path) -> None:
    report = fit(pool(), tmp_path / "run", p0=0.3, p1=0.1)
    assert (report["noise"], report["p0"], report["p1"]) == ("given", 0.3, 0.1)
    assert report["threshold"] == pytest.approx(0.6)
    with pytest.raises(InputError, match="belong together"):
        fit(pool(), tmp_path / "other", p0=0.3)
    with pytest.raises(InputError, match="need rates in"):
        fit(pool(), tmp_path / "other", p0=0.6, p1=0.5)
    with pytest.raises(InputError, match="--noise says how rates are estimated: leave it out"):
        fit(pool(), tmp_path / "other", p0=0.3, p1=0.1, noise="minmax")


def test_text_written_elsewhere_is_trained_and_scored(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).round(4)
    y = np.where(x[:, 0] > 0, "ja", "nein")

    def write(name: str, sep: str, decimal: str, encoding: str) -> Path:
        table = pd.DataFrame(x, columns=["größe", "b", "c"]).assign(krank=y)
        table.to_csv(tmp_path / name, sep=sep, decimal=decimal, encoding=encoding, index=False)
        return tmp_path / name

    plain = write("plain.csv", ",", ".", "utf-8")
    german = write("german.csv", ";", ",", "cp1252")
    how = {"sep": ";", "decimal": ",", "encoding": "cp1252"}
    report = fit(german, tmp_path / "german", label_column="krank", **how)
    same = fit(plain, tmp_path / "plain", label_column="krank")
    assert results(tmp_path / "german").keys() == results(tmp_path / "plain").keys()
    assert (report["p0"], report["p1"]) == (same["p0"], same["p1"])
    with pytest.raises(InputError, match="text is read as"):
        fit(german, tmp_path / "german", label_column="krank", **{**how, "encoding": "latin1"})
    found = {}
    for name, source, more in (
        ("as the training's", german, {}),
        ("otherwise", plain, {"sep": ",", "decimal": ".", "encoding": "utf-8"}),
    ):
        out = tmp_path / f"{name}.parquet"
        run_score(str(source), str(tmp_path / "german"), str(out), workers=0, quiet=True, **more)
        found[name] = pd.read_parquet(out)
    pd.testing.assert_frame_equal(*found.values())
    with pytest.raises(InputError, match="--encoding cp1252 or another"):
        fit(german, tmp_path / "wrong", label_column="krank", sep=";", decimal=",")
