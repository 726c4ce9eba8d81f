"""Damage to any file of a finished run: commands name it, none trusts it, train repairs it."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from runs import fit, results

from flows.cli import main
from flows.orchestration.run_folders import latest
from flows.report.status import status
from flows.score import score
from storage import InputError, StorageError, open_run
from storage.runs import pool
from storage.runs.lease import leased
from storage.runs.run import Run

BLOCK_ROWS = 300


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source, queries, and a finished training on it with one scoring."""
    folder = tmp_path_factory.mktemp("finished")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (rng.random(600) < 0.2)).astype(np.int8)
    np.savez(folder / "pool.npz", X=x, y=y)
    np.savez(folder / "queries.npz", X=x[:50])
    train(folder)
    apply(folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be harmed."""
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    return copy


def train(folder: Path, **more: object) -> None:
    fit(folder / "pool.npz", folder / "run", block_rows=BLOCK_ROWS, **more)


def again(folder: Path, finished: Path) -> None:
    """Train on the source that the run was made of, which its pool names."""
    fit(finished / "pool.npz", folder / "run", block_rows=BLOCK_ROWS)


def apply(folder: Path) -> None:
    score.fn(
        *map(str, (folder / "queries.npz", folder / "run", folder / "s.parquet")),
        workers=0,
        quiet=True,
    )


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def swap(file: Path) -> None:
    """With the next file of its folder, or else of the run, whose content is another; never with
    the lease, which without an owner's name is watched for a minute."""
    run = next(parent for parent in file.parents if parent.name == "run")
    near = [*sorted(file.parent.rglob("*")), *sorted(run.rglob("*.json"))]
    near = [f for f in near if f.is_file() and f.parent.name != "lease"]
    other = next(f for f in near if f.read_bytes() != file.read_bytes())
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def edit(file: Path) -> None:
    """One number, where it is text; else one byte."""
    content = file.read_bytes()
    digits = list(re.finditer(rb"(?<=[ :\[])\d", content))
    if file.suffix != ".json" or not digits:
        return flip(file)
    at = digits[len(digits) // 2].start()
    file.write_bytes(
        content[:at] + (b"7" if content[at : at + 1] != b"7" else b"3") + content[at + 1 :]
    )
    return None


def garble(file: Path) -> None:
    file.write_bytes(b'{"zarr')


HARMS: list[Callable[[Path], None]] = [flip, cut, empty, remove, swap, edit]


def rests_on(run: Path) -> list[Path]:
    """Files of a training that its results rest on."""
    left_out = {"scratch.zarr", "scores", "logs", "lease", "plans", "timings.json"}
    return [
        file
        for file in sorted(run.rglob("*"))
        if file.is_file() and not left_out & {*file.relative_to(run).parts}
    ]


def is_whole(run: Path) -> bool:
    try:
        return bool(status(str(run)).finished)
    except (StorageError, InputError):
        return False


@pytest.mark.parametrize("seed", range(2))
def test_damage_to_any_file_is_told_by_status(folder: Path, seed: int) -> None:
    run, chance = folder / "run", random.Random(seed)
    files = rests_on(run)
    assert is_whole(run)
    for file in [*chance.sample(files, 12), run / "report.json", run / "run.json"]:
        before = {f: f.read_bytes() for f in files}
        harm = chance.choice(HARMS)
        harm(file)
        assert not is_whole(run) or file.name == "run.copy.json", (harm.__name__, file)
        for other, content in before.items():
            if not other.exists() or other.read_bytes() != content:
                other.write_bytes(content)
    assert is_whole(run)


@pytest.mark.parametrize("seed", range(3))
def test_damage_to_any_file_is_repaired_by_train(folder: Path, finished: Path, seed: int) -> None:
    run, chance = folder / "run", random.Random(seed)
    file, harm = chance.choice(rests_on(run)), chance.choice(HARMS)
    harm(file)
    train(folder)
    assert results(run) == results(finished / "run"), (harm.__name__, file)
    assert is_whole(run)


@pytest.mark.parametrize("harm", [remove, flip, cut])
@pytest.mark.parametrize(
    "chunks",
    ["results.zarr/graph/00001/**/c/**/*", "scratch.zarr/route/*", "results.zarr/pool/x/c/**/*"],
)
def test_damaged_chunks_are_repaired(
    folder: Path, finished: Path, chunks: str, harm: Callable[[Path], None]
) -> None:
    harm(max(file for file in (folder / "run").glob(chunks) if file.is_file()))
    again(folder, finished)
    assert results(folder / "run") == results(finished / "run")


@pytest.mark.parametrize("harm", [remove, garble])
@pytest.mark.parametrize(
    "file",
    [
        *("results.zarr/pool/zarr.json", "results.zarr/pool/x/zarr.json"),
        *("results.zarr/labels/zarr.json", "results.zarr/labels/eta_corr/zarr.json"),
        *("results.zarr/graph/00000/zarr.json", "ledger/blocks/block-00001.json"),
        *("ledger/pool/all.json", "report.json", "timings.json", "label_issues.parquet"),
    ],
)
def test_lost_or_garbled_files_are_repaired(
    folder: Path, finished: Path, file: str, harm: Callable[[Path], None]
) -> None:
    harm(folder / "run" / file)
    again(folder, finished)
    assert results(folder / "run") == results(finished / "run")


def test_damaged_chunks_of_a_pool_are_made_again_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MOST_ROWS", 100)
    run = folder / "chunks"
    fit(folder / "pool.npz", run, block_rows=BLOCK_ROWS)
    whole = results(run)
    before = {file: file.read_bytes() for file in run.glob("ledger/*/*.json")}
    for number in (1, 2, 5):
        flip(run / f"results.zarr/pool/x/c/{number}/0")
    fit(folder / "pool.npz", run, block_rows=BLOCK_ROWS)
    assert results(run) == whole
    made = {str(f.relative_to(run / "ledger")) for f, c in before.items() if f.read_bytes() != c}
    assert made == {f"ingest-pool/chunk-00000{number}.json" for number in (1, 2, 5)}


def test_torn_metadata_of_a_part_that_was_not_committed(folder: Path, finished: Path) -> None:
    """What a power cut leaves of files that nothing was recorded of."""
    run = folder / "run"
    for step in (run / "ledger").iterdir():
        if step.name not in ("pool", "ingest-pool"):
            shutil.rmtree(step)
    for file in [*run.glob("*.zarr/**/zarr.json"), run / "report.json"]:
        if "pool" not in file.parts:
            file.write_bytes(file.read_bytes()[:40])
    train(folder)
    assert results(run) == results(finished / "run")
    assert is_whole(run)


SPECIAL = [
    "report.json",
    "run.json",
    "run.copy.json",
    "results.zarr/zarr.json",
    "results.zarr/blocks/zarr.json",
    "results.zarr/blocks/00000/x/zarr.json",
    "ledger/rates/all.json",
    "ledger/blocks/block-00001.json",
    "ledger/report/all.json",
]


@pytest.mark.parametrize("harm", HARMS)
def test_each_kind_of_metadata_is_repaired(
    folder: Path, finished: Path, harm: Callable[[Path], None]
) -> None:
    run = folder / "run"
    for key in SPECIAL:
        harm(run / key)
        if key != "run.copy.json":
            assert not is_whole(run), key
        train(folder)
        assert results(run) == results(finished / "run"), key
        assert is_whole(run), key
        assert len(open_run(str(run))["blocks"].children) == len(
            list((run / "results.zarr/blocks").glob("0*"))
        )


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    "key", ["report.json", "ledger/rates/all.json", "ledger/report/all.json", "run.json"]
)
def test_what_is_damaged_is_named_and_never_trusted(
    folder: Path, key: str, harm: Callable[[Path], None]
) -> None:
    harm(folder / "run" / key)
    for call in (lambda: apply(folder), lambda: open_run(str(folder / "run"))):
        with pytest.raises(StorageError, match=r"ledger|report\.json|run\.json") as told:
            call()
        assert "run train again to repair" in str(told.value)


def test_a_report_that_is_being_written_is_not_damaged(folder: Path) -> None:
    run = Run.of(folder / "run")
    (folder / "run/ledger/report/all.json").unlink()
    with leased(run.location, print):
        assert status(str(folder / "run")).damage is None
        assert open_run(str(folder / "run")).children
        with pytest.raises(InputError, match="is not finished"):
            apply(folder)
        with pytest.raises(InputError, match="no finished run matches"):
            latest(str(folder / "ru*"))
    assert "damaged" in str(status(str(folder / "run")).damage)


def test_edited_threshold_is_not_scored_with(folder: Path) -> None:
    file = folder / "run" / "report.json"
    report = json.loads(file.read_text())
    report["decision_rule"]["threshold"] = 0.01
    file.write_text(json.dumps(report, indent=1))
    with pytest.raises(StorageError, match=r"report\.json is damaged; run train again to repair"):
        apply(folder)
    train(folder)
    assert json.loads(file.read_text())["decision_rule"]["threshold"] > 0.2


@pytest.mark.parametrize("place", ["x", "row"])
def test_block_swapped_with_another_is_not_scored_with(folder: Path, place: str) -> None:
    blocks = folder / "run" / "results.zarr" / "blocks"
    chunk = "c/0/0" if place == "x" else "c/0"
    one, two = (blocks / block / place / chunk for block in ("00000", "00001"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    (folder / "queries.npz").unlink()
    np.savez(folder / "queries.npz", X=np.eye(4, dtype=np.float32))
    with pytest.raises(StorageError, match=r"blocks/0000.*is damaged or missing; run train again"):
        apply(folder)


def test_finished_run_without_its_scratch_stays_finished(folder: Path) -> None:
    run = folder / "run"
    shutil.rmtree(run / "scratch.zarr")
    shutil.rmtree(next((run / "scores").iterdir()) / "scratch.zarr")
    before = {file: file.stat().st_mtime_ns for file in rests_on(run)}
    assert is_whole(run)
    train(folder)
    apply(folder)
    assert {file: file.stat().st_mtime_ns for file in rests_on(run)} == before


def test_run_without_scratch_is_repaired_all_the_same(folder: Path, finished: Path) -> None:
    run = folder / "run"
    shutil.rmtree(run / "scratch.zarr")
    flip(run / "results.zarr/labels/eta_corr/c/0")
    train(folder)
    assert results(run) == results(finished / "run")


def test_run_whose_config_and_copy_are_lost_is_refused(folder: Path) -> None:
    for name in ("run.json", "run.copy.json"):
        (folder / "run" / name).write_bytes(b"{")
    with pytest.raises(StorageError, match="no whole copy; train anew"):
        train(folder)
    assert (folder / "run" / "report.json").exists()


def rewritten(run: Path, **changes: object) -> None:
    """As another version would have begun the run."""
    from storage.files.durable import seal, unseal

    for name in ("run.json", "run.copy.json"):
        config = unseal((run / name).read_bytes())
        assert config is not None
        (run / name).write_bytes(seal({**config, **changes}, indent=1))


def test_run_from_before_a_parameter_existed_is_resumed(folder: Path, finished: Path) -> None:
    run = folder / "run"
    parameters = Run.of(run).config()["parameters"]
    del parameters["rule"]
    rewritten(run, parameters=parameters)
    train(folder)
    with pytest.raises(InputError, match="rule was 'corrected' and is 'rknn'"):
        train(folder, rule="rknn")


def test_parameter_of_a_newer_version_is_refused_by_name(folder: Path) -> None:
    run = folder / "run"
    config = Run.of(run).config()
    parameters, versions = ({**config[name]} for name in ("parameters", "versions"))
    rewritten(
        run,
        parameters=parameters | {"shape": "round"},
        versions=versions | {"knnoise": "9.0.0"},
    )
    with pytest.raises(InputError, match=r"does not know \(shape\)"):
        train(folder)


def test_newer_format_is_refused_by_name(folder: Path) -> None:
    rewritten(folder / "run", format_version=99)
    for call in (lambda: train(folder), lambda: apply(folder), lambda: status(str(folder / "run"))):
        with pytest.raises(InputError, match=r"format version 99.*update knnoise"):
            call()


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("report.json", "report"),
        ("run.json", r"run\.json"),
        ("ledger/rates/all.json", "rates"),
        ("ledger/report/all.json", "report"),
        ("results.zarr/blocks/zarr.json", "report|blocks"),
        ("results.zarr/labels/eta_corr/c/0", "labels"),
        ("results.zarr/labels/row/zarr.json", "label|verdicts"),
    ],
)
@pytest.mark.parametrize("harm", [flip, remove])
def test_commands_name_the_damage_and_the_remedy_in_one_line(
    folder: Path,
    key: str,
    named: str,
    harm: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = str(folder / "run")
    harm(folder / "run" / key)
    commands = [["status", "--run", run], ["compare", run, run]]
    if "/c/" not in key:  # the report as text rests on no chunk
        commands.append(["report", "--run", run])
    for command in commands:
        capsys.readouterr()
        assert main(command) == 3, command
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1, said
        assert re.search(named, said[0]), said
        assert "run train again to repair" in said[0]
