"""Runs that earlier versions made: every command works with them, or refuses in one line that
loses nothing, and what the line says to do works."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flows.cli import main
from flows.orchestration.run_folders import dated
from formats import typed
from formats.kept import TRAINED, extract
from formats.stored import FILE, fingerprint, released
from storage.version import FORMAT_VERSION, VERSION

READ = ("status", "settings", "report", "compare")
"""Commands that work with what was released in an earlier format."""
NEVER = dict.fromkeys(TRAINED, ("acquire",)) | {"sets": ("acquire", "compare", "certify", "review")}
"""Commands that are not for such a run, whoever made it."""
FORMATS = released()
RUNS = [("0.1.0-earlier", "two")]
RUNS += [(version, name) for version in FORMATS if "-" not in version for name in TRAINED]


def commands(run: str) -> dict[str, list[str]]:
    """Each command that takes a run."""
    return {
        "status": ["status", "--run", run],
        "settings": ["settings", "--run", run],
        "report": ["report", "--run", run],
        "compare": ["compare", run, run],
        "page": ["report", "--run", run, "--html", "r.html"],
        "score": ["score", TRAINED[run][0], "--run", run, "--out", "s.csv", "-q"],
        "certify": ["certify", "--run", run, "-q"],
        "review": ["review", "--run", run, "--export-to", "answers.csv", "-q"],
        "acquire": ["acquire", "two.csv", "--run", run, "--budget", "9", "--label-column", "label"],
        "train": ["train", *TRAINED[run], "--run", run, "--workers", "0", "-q"],
    }


def content(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module", params=RUNS, ids="-".join)
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Path]:
    """A version, one of its runs, and the folder where these are."""
    version, name = request.param
    folder = tmp_path_factory.mktemp("kept")
    extract(version, folder)
    return version, name, folder


def test_each_command_works_or_refuses_and_loses_nothing(
    kept: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version, run, folder = kept
    ours = FORMATS[version] == FORMAT_VERSION
    monkeypatch.chdir(folder)
    before = content(folder)
    for name, command in commands(run).items():
        status, said = main(command), capsys.readouterr()
        works = (ours or name in READ) and name not in NEVER[run]
        assert status == (0 if works else 2), (name, said)
        assert works == bool(said.out), (name, said)
        after = content(folder)
        if works and name not in READ:
            assert before.items() <= after.items(), name
        else:
            assert after == before, name
        if not works:
            assert len(said.err.splitlines()) == 1
        if ours and name == "acquire":
            assert "by another command; use another --run folder" in said.err
        if not (ours or works or name == "compare"):
            made = f"was made by knnoise 0.1.0 in format version {FORMATS[version]}"
            assert made in said.err, (name, said)
            assert "train anew in another folder" in said.err, (name, said)
        before = after


def test_training_anew_is_the_remedy_and_the_two_are_compared(
    kept: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version, run, folder = kept
    monkeypatch.chdir(folder)
    train = commands(run)["train"]
    train[train.index("--run") + 1] = "new"
    with_earlier = [] if run == "sets" else ["--compare-with", "set*" if run == "votes" else run]
    assert main([*train, *with_earlier]) == 0
    said = capsys.readouterr().out
    assert ("/sets: not compared" in said) == (run == "votes")
    assert (f"since {run}: " in said) == (run in ("two", "three"))
    assert main(["score", TRAINED[run][0], "--run", "new", "--out", "s.csv", "-q"]) == 0
    if run != "sets":
        capsys.readouterr()
        assert main(["compare", run, "new"]) == 0
        said = capsys.readouterr().out
        made, earlier = version.partition("-")[0], FORMATS[version]
        assert (f"versions: knnoise was {made} and is {VERSION}" in said) == (made != VERSION)
        other = f"/{run} is of format version {earlier}, this is {FORMAT_VERSION}"
        assert (other in said) == (earlier != FORMAT_VERSION)


def test_a_schedule_trains_beside_an_earlier_version_and_scores_with_the_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract("0.1.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    week = "pool-{date:%G-W%V}"
    shutil.move("two", dated(week))
    weekly = ["train", *TRAINED["two"], "--run", week, "--compare-with", "pool-*"]
    nightly = ["score", "two.csv", "--run", "pool-*", "--out", "s.parquet", "-q"]
    assert main(nightly) == 2
    before = content(tmp_path)
    for _ in range(2):  # a rerun in the same week resumes the same
        assert main([*weekly, "--workers", "0", "-q"]) == 0
    assert before.items() <= content(tmp_path).items()
    assert len(list(tmp_path.glob("pool-*"))) == 2
    assert main(nightly) == 0


def test_runs_of_every_release_are_kept() -> None:
    """`make release` makes those of this version."""
    changes = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## (\S+)(.*)$", changes, re.MULTILINE)
    assert sections[0][0] == VERSION
    assert {version for version, about in sections if about != " (unreleased)"} <= FORMATS.keys()


def test_what_reaches_disk_is_confirmed() -> None:
    new, old = fingerprint(), FILE.read_text().splitlines()
    changed = sorted({line.split()[0] for line in {*new} ^ {*old}})
    assert not changed, (
        f"what is stored changed: {', '.join(changed)}. Where format {FORMAT_VERSION} was released "
        f"({released()}), raise FORMAT_VERSION in storage/version.py; then run `make formats`, and "
        "commit tests/formats/stored.txt"
    )
    assert FORMAT_VERSION not in released().values() or old[0] == f"format {FORMAT_VERSION}"


def test_types_of_options_are_those_of_the_parameters() -> None:
    """`make formats` writes them."""
    assert typed.FILE.read_text() == typed.rendered()
