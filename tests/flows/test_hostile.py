"""Commands given paths and files that break their readers: one line, exit 2 or 3, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import AS_IN_FIT, PoolWriter, fit

from flows.cli import main

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, made once."""
    import numpy as np

    folder = tmp_path_factory.mktemp("finished")
    x = np.random.default_rng(0).normal(size=(60, 3))
    np.savez(folder / "pool.npz", X=x, y=x[:, 0] > 0)
    fit(folder / "pool.npz", folder / "run")
    return folder


def line(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    status = main([str(arg) for arg in args])
    said = capsys.readouterr().err
    assert status in (2, 3), said
    assert len(said.splitlines()) == 1, said
    assert "unexpected" not in said
    assert "Traceback" not in said
    return said


def test_a_zero_byte_in_a_path(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool, run, bad = finished / "pool.npz", finished / "run", "a\0b"
    here = ("--workers", 0)
    for args in (
        ("train", bad, "--run", finished / "new", *here),
        ("train", pool, "--run", bad, *here),
        ("train", pool, "--run", finished / "new", "--labels", bad, *here),
        ("score", pool, "--run", run, "--out", bad, *here),
        ("score", pool, "--run", bad, "--out", finished / "o.parquet", *here),
        ("report", "--run", bad),
        ("report", "--run", run, "--html", bad),
        ("status", "--run", bad),
        ("compare", run, bad),
        ("compare", run, run, "--html", bad),
    ):
        assert "zero byte" in line(capsys, *args)
    assert not (run / "scores").exists()


@pytest.mark.parametrize("content", ["{}", "[]", "null", "{", DEEP, '{"n_rows": 1}', "\udcff"])
@pytest.mark.parametrize("name", ["report.json", "run.json"])
def test_json_that_is_none_of_ours(
    finished: Path, name: str, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, run = finished / "run" / name, finished / "run"
    whole = file.read_bytes()
    file.write_bytes(content.encode(errors="surrogateescape"))
    try:
        out = finished / "o.parquet"
        line(capsys, "report", "--run", run)
        line(capsys, "compare", run, run)
        line(capsys, "score", finished / "pool.npz", "--run", run, "--out", out, "--workers", 0)
        if name == "run.json":
            line(capsys, "status", "--run", run)
            # From its copy.
            train = ("train", finished / "pool.npz", "--run", run, "--workers", 0, "--k", 10)
            assert main([*map(str, train), *AS_IN_FIT]) == 0
            assert file.read_bytes() == whole
    finally:
        file.write_bytes(whole)


def test_a_record_that_is_none_of_ours(
    pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(pool(), tmp_path / "run")
    for file in ("ledger/pool/all.json", "plans/pool.json", "timings.json"):
        (tmp_path / "run" / file).write_text(DEEP)
    (tmp_path / "run/report.json").unlink()
    assert "run train again to repair" in line(capsys, "status", "--run", tmp_path / "run")
    fit(pool(), tmp_path / "run")
