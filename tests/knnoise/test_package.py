"""`from knnoise import …` as in a script and a notebook."""

from __future__ import annotations

import os
import pydoc
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from html import unescape
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import knnoise
from flows.engine.spared import MESSAGE
from knnoise.result import Scores
from storage.errors import InputError, StorageError
from storage.export import FORMATS, write_tables
from storage.version import VERSION

QUIET = {"workers": 0, "quiet": True}
ROOT = Path(knnoise.__file__).parent.parent


def frame(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + 3 * clean[:, None]
    table = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"P{i:03d}" for i in range(n)])
    table["sick"] = np.where(clean ^ (rng.random(n) < 0.15), "yes", "no")
    return table.rename_axis("patient")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> knnoise.Training:
    run = tmp_path_factory.mktemp("api") / "run"
    return knnoise.train(frame(), run, label_column="sick", **QUIET)


def test_a_data_frame_is_trained_on_and_its_index_names_the_rows(
    trained: knnoise.Training, capsys: pytest.CaptureFixture[str]
) -> None:
    issues = trained.label_issues
    table = frame()
    assert issues["patient"].tolist() == table.index.tolist()
    assert issues["given_label"].tolist() == table["sick"].tolist()
    assert set(issues["predicted_label"]) == {"no", "yes"}
    worst = trained.suspects(7)
    assert len(worst) == 7
    with pytest.raises(InputError, match=r"^n=-1: must be 0 or more$"):
        trained.suspects(-1)
    assert worst["is_label_issue"].all()
    assert worst["label_quality"].is_monotonic_increasing
    assert trained.rates.loc["p0", "estimate"] == trained.summary["p0"]
    assert np.allclose(trained.matrix.sum(axis=1), 1)
    assert [*trained.matrix.index] == [*trained.matrix.columns] == trained.label_values
    assert 0 < trained.matrix.loc["no", "yes"] < 0.5
    assert {"outlier_score", "data_value"} <= set(trained.data_issues.columns)
    assert len(trained.data_issues) == len(trained.label_issues)
    assert "patient" in trained._repr_html_()
    assert "noise rates" in str(trained)
    assert trained.report().startswith("<!doctype html>")
    assert knnoise.open_run(trained.run).summary == trained.summary
    assert trained.tree()["pool"].sizes["row"] == 300
    assert not any(capsys.readouterr())


def test_the_page_is_written_to_a_path(trained: knnoise.Training, tmp_path: Path) -> None:
    assert trained.report(tmp_path / "r.html") == str(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8") == trained.report()
    with pytest.raises(
        InputError, match=r"^show_column and image_root belong to a file: give show"
    ):
        trained.report(show_column="a")


def test_figures_are_drawn(trained: knnoise.Training) -> None:
    import matplotlib

    matplotlib.use("agg")
    ax = trained.plot_rates()
    assert len(ax.lines) == 4
    ax.figure.draw_without_rendering()
    marks = [line.get_window_extent() for line in ax.lines]  # with their markers
    assert not any(text.get_window_extent().overlaps(one) for text in ax.texts for one in marks)
    assert trained.plot_posterior().get_ylabel() == "rows"
    prices = replace(trained, summary={**trained.summary, "label_values": ["$0-$9", r"$\frac$"]})
    for drawn in (prices.plot_rates(), prices.plot_posterior()):
        drawn.figure.draw_without_rendering()  # no formula is looked for


@pytest.mark.parametrize("end", [end for end in FORMATS if end != ".xlsx"])  # of 15 digits
def test_whole_numbers_beside_gaps_keep_their_digits(tmp_path: Path, end: str) -> None:
    unsigned = pa.array([2**64 - 1, 1, 2], pa.uint64())
    written = pa.table({"n": [2**60 + 1, None, 3], "u": unsigned, "t": ["1", None, "03"]})
    write_tables(str(tmp_path / f"t{end}"), written.schema, [written])
    found = Scores(str(tmp_path / f"t{end}"), {}, []).frame
    assert found["n"].tolist() == [2**60 + 1, pd.NA, 3]
    assert found["u"].tolist() == [2**64 - 1, 1, 2]
    assert [None if pd.isna(one) else one for one in found["t"]] == ["1", None, "03"]


def test_the_page_of_a_frame_names_no_file_that_is_gone(trained: knnoise.Training) -> None:
    page = unescape(trained.report())
    assert f"open_run('{trained.run}').clean(SOURCE, 'clean.parquet')" in page
    assert "knnoise clean" not in page


def test_ids_of_19_digits_are_numbers_again(tmp_path: Path) -> None:
    """As those of posts; text could not be joined with the frame."""
    ids = 1_500_000_000_000_000_000 + np.arange(300)
    table = frame().reset_index(drop=True).assign(post=ids)
    given = {"label_column": "sick", "id_column": "post", "metric": "as-scaled", **QUIET}
    found = knnoise.train(table, tmp_path / "run", **given)
    assert found.label_issues["post"].tolist() == ids.tolist()
    assert len(table.merge(found.label_issues, on="post")) == 300


@pytest.mark.parametrize("as_bytes", [False, True])
def test_uuids_name_rows_and_bytes_do_not(tmp_path: Path, as_bytes: bool) -> None:
    table, ids = frame().reset_index(drop=True), [UUID(int=2**100 + n) for n in range(300)]
    table["id"] = [one.bytes for one in ids] if as_bytes else ids
    given = {"label_column": "sick", "id_column": "id", **QUIET}
    if as_bytes:
        kinds = pa.Table.from_pandas(table).schema
        fixed = kinds.set(kinds.get_field_index("id"), pa.field("id", pa.binary(16)))
        pq.write_table(pa.Table.from_pandas(table, fixed), tmp_path / "t.parquet")
        with pytest.raises(InputError, match=r"fixed_size_binary\[16\]; ids are text or whole"):
            knnoise.train(tmp_path / "t.parquet", tmp_path / "run", **given)
        return
    found = knnoise.train(table, tmp_path / "run", **given)
    assert found.label_issues["id"].tolist() == [str(one) for one in ids]


def test_a_run_that_was_moved_is_not_called_damaged(trained: knnoise.Training) -> None:
    moved = replace(trained, run=f"{trained.run}-before")
    with pytest.raises(InputError, match="the run is gone; open it by open_run where it is"):
        _ = moved.label_issues


def test_a_damaged_table_is_named_and_repaired(tmp_path: Path) -> None:
    given = {"label_column": "sick", "metric": "as-scaled", **QUIET}
    trained = knnoise.train(frame(), tmp_path / "run", **given)
    whole, table = trained.label_issues, tmp_path / "run/label_issues.parquet"
    for content in (None, b"PAR1"):
        table.unlink(missing_ok=True)
        if content is not None:
            table.write_bytes(content)
        with pytest.raises(
            StorageError, match=r"label_issues\.parquet: damaged .* again to repair"
        ):
            assert trained.label_issues is None
    knnoise.train(frame(), tmp_path / "run", **given)
    assert trained.label_issues.equals(whole)


def test_a_training_is_a_path_for_options_too(trained: knnoise.Training, tmp_path: Path) -> None:
    given = {"label_column": "sick", "compare_with": trained, **QUIET}
    again = knnoise.train(frame(), tmp_path / "run", **given)  # type: ignore[arg-type]
    assert str(trained.run) in again.summary["since"][0]


def test_the_same_frame_again_is_the_same_run(trained: knnoise.Training) -> None:
    again = knnoise.train(frame(), trained.run, label_column="sick", **QUIET)
    assert again.summary == trained.summary
    assert {trained, again} == {again}


def test_results_are_read_from_whatever_folder_is_current_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that is named by its date."""
    monkeypatch.chdir(tmp_path)
    found = knnoise.train(frame(), "run-{date:%G-W%V}", label_column="sick", **QUIET)
    scores = knnoise.score(frame(20), found, "scores.parquet", **QUIET)
    again = knnoise.open_run("run-*")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    assert again.run == found.run
    assert len(again.label_issues) == len(found.label_issues) == 300
    assert len(scores.frame) == 20
    assert len(found.clean(frame(), tmp_path / "clean.parquet").frame) < 300


def test_scores_of_frames_tables_and_arrays_agree(trained: knnoise.Training) -> None:
    new = frame(40).drop(columns="sick")
    scores = knnoise.score(new, trained, **QUIET).frame
    assert scores["patient"].tolist() == new.index.tolist()
    assert set(scores["predicted_label"]) <= {"no", "yes"}
    table = pa.Table.from_pandas(new, preserve_index=False)
    for source in (table, table.to_reader(), new.to_numpy()):
        found = knnoise.score(source, trained.run, **QUIET).frame
        assert "patient" not in found
        assert np.allclose(found["posterior"], scores["posterior"])


@pytest.mark.parametrize("end", FORMATS)
def test_text_is_read_back_as_it_was_written(end: str, tmp_path: Path) -> None:
    written = {
        "id": ["007", "1e3", 'a "b",\nc'],
        "predicted_label": ["NA", "null", "true"],
        "row": [0, 1, 2**40],
        "posterior": [0.25, 0.5, 1.0],
    }
    path, table = str(tmp_path / f"t{end}"), pa.table(written)
    write_tables(path, table.schema, [table])
    assert Scores(path, {}, []).frame.to_dict("list") == written


def test_arrays_with_labels_beside(tmp_path: Path) -> None:
    table = frame()
    x, y = table[["a", "b", "c"]].to_numpy(), table["sick"]
    for labels in (y, y.to_numpy(), (y == "yes").to_numpy()):
        found = knnoise.check(x, labels=labels)
        assert found.n_rows == 300
        assert len(found.label_counts) == 2
    assert "nothing suspicious" in str(found)
    trained = knnoise.train(x, tmp_path / "run", labels=y, **QUIET)
    assert trained.label_values == ["no", "yes"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"noise": "crosfit"},
            "noise='crosfit': must be one of crossfit or minmax; did you mean c",
        ),
        (
            {"label_colum": "y"},
            "label_colum: there is no such parameter, did you mean label_column?",
        ),
        ({"k": "ten"}, "k='ten': must be a whole number"),
        ({"workers": -1}, "workers=-1: must be 0 or more"),
        ({"workers": "auto"}, "workers='auto': must be a number, or None for auto"),
        (
            {"corrections": pd.DataFrame({"row": [1]})},
            "corrections of type DataFrame: give the path of a file it is written to",
        ),
        ({"seed": 1.5}, "seed=1.5: must be a whole number"),
        ({"quiet": "x"}, "quiet='x': must be true or false"),
        ({"label_column": ["sick"]}, "label_column of type list: must be text"),
        ({"label_column": 5}, "label_column=5: must be text, such as '5'"),
        ({"corrections": ""}, "'': a path cannot be empty; check it"),
        ({"parse": {"a": "percent"}}, "parse of type dict: input should be a valid list"),
    ],
)
def test_wrong_options_are_said_in_python_s_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        knnoise.train(frame(), **given)  # type: ignore[arg-type]


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(InputError, match=r"^run of type int: must be a path$"):
        knnoise.train(frame(), 5, label_column="sick", **QUIET)
    for run, kind in ((None, "NoneType"), (b"run", "bytes")):
        with pytest.raises(InputError, match=f"^run of type {kind}: must be a path$"):
            knnoise.open_run(run)


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(InputError, match="a source of type dict cannot be read; give a path"):
        knnoise.check({"a": [1]})


def python(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=paths, check=False)


def test_what_is_refused_leaves_no_folder(
    trained: knnoise.Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for call in (
        lambda: knnoise.train("absent.csv", label_column="y"),
        lambda: knnoise.score("absent.csv", trained),
        lambda: knnoise.clean("absent.csv", trained),
    ):
        with pytest.raises(InputError, match="absent"):
            call()
    assert [*tmp_path.iterdir()] == []


def test_a_folder_of_the_same_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "__init__.py").touch()
    done = python("-c", "import knnoise", cwd=tmp_path)
    assert "hides it: rename that" in done.stderr.splitlines()[-1]
    assert str(tmp_path / "storage") in done.stderr


def test_python_m_knnoise_is_the_command_line(tmp_path: Path) -> None:
    done = python("-m", "knnoise", "--version", cwd=tmp_path)
    assert done.stdout.startswith("knnoise ")


def test_a_program_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "t.parquet", index=False)
    call = "train('t.parquet', 'run', label_column='sick', workers=1, quiet=True)"
    (tmp_path / "script.py").write_text(f"from knnoise import train\n{call}\n")
    done = python("script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(MESSAGE)
    assert done.stderr.count("Traceback") == 1


def test_a_program_of_standard_input_has_workers(tmp_path: Path) -> None:
    """There is no file that they could import."""
    frame().to_parquet(tmp_path / "t.parquet", index=False)
    call = "knnoise.train('t.parquet', 'run', label_column='sick', workers=1, quiet=True)"
    done = subprocess.run(
        [sys.executable, "-"],
        input=f"import knnoise\n{call}\nprint(__file__)\n",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("<stdin>\n", "")


def test_the_package_says_its_version_and_names() -> None:
    assert knnoise.__version__ == VERSION
    assert dir(knnoise) == sorted(knnoise.__all__)
    assert all(getattr(knnoise, name) is not None for name in knnoise.__all__)
    with pytest.raises(AttributeError, match=r"no attribute 'trian', did you mean train\?"):
        knnoise.trian  # noqa: B018
    assert (Path(knnoise.__file__).parent / "py.typed").exists()


SCRIPT = """
import knnoise
found = knnoise.train("pool.csv", label_column="y", k=30, metric="auto", exclude=["id"])
scores = knnoise.score("new.csv", found, workers=0)
knnoise.clean("pool.csv", found, how="weight")
{line}
"""


LINES = {
    "print(scores.frame())": "",
    "knnoise.train('pool.csv', labell_column='y')": 'keyword argument "labell_column"',
    "knnoise.train('pool.csv', k='many')": 'has incompatible type "str"',
    "knnoise.score('new.csv', found, metric='cosine')": 'keyword argument "metric"',
    "knnoise.train('pool.csv', metric='euclid')": 'has incompatible type "Literal',
}
"""Last lines of scripts, and what is said of each."""


def test_scripts_are_type_checked(tmp_path: Path) -> None:
    scripts = {tmp_path / f"script_{i}.py": line for i, line in enumerate(LINES)}
    for script, line in scripts.items():
        script.write_text(SCRIPT.format(line=line))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *map(str, scripts)],  # as lint does, whose cache serves
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    for script, line in scripts.items():
        told = [said for said in checked.stdout.splitlines() if script.name in said]
        assert (told == []) == (LINES[line] == ""), checked.stdout + checked.stderr
        assert LINES[line] in "\n".join(told)
    assert f"(checked {len(scripts)} source files)" in checked.stdout, checked.stdout


def test_help_lists_the_options_with_their_bounds() -> None:
    text = pydoc.render_doc(knnoise.train, renderer=pydoc.plaintext)
    assert "label_column: str | None = None" in text
    assert re.search(r"k : neighbors per row.*\(at least 5\)", text)
    assert "--label" not in text
