"""No password and no signature leaves the process, by whatever exit, and none is kept on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from runs import PoolWriter, fit, results
from secret_source import OTHER, PASSWORD, SIGNATURE, check, guarded, kept

from flows.cli import main
from flows.orchestration.submit import submit
from storage import InputError, StorageError
from storage.files.location import Location

pytest.importorskip("aiohttp")


@pytest.fixture
def host(pool: PoolWriter, tmp_path: Path) -> Iterator[str]:
    """Host and port of a server with pool.npz, x.npy, y.txt and broken.npz."""
    folder = tmp_path / "served"
    folder.mkdir()
    arrays = np.load(pool(name="served/pool.npz"))
    np.save(folder / "x.npy", arrays["X"])
    (folder / "y.txt").write_text("\n".join(map(str, arrays["y"])) + "\n")
    (folder / "broken.npz").write_bytes(b"PK\3\4" + bytes(200))
    with guarded(folder) as address:
        yield address


def test_a_password_is_used_and_never_kept(
    host: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "scores.parquet"
    options = ("--run", run, "--k", 10, "--workers", 0)
    for password in (PASSWORD, OTHER):  # the second time it is the same source
        source = f"http://me:{password}@{host}/x.npy"
        labels = f"http://me:{password}@{host}/y.txt?sig={SIGNATURE}"
        assert main(["train", source, "--labels", labels, *options]) == 0
    assert "finished and whole" in check(capfd, run)
    assert main(["score", source, "--run", str(run), "--out", str(out), "--workers", "0"]) == 0
    signed = f"http://{host}/x.npy?sig={SIGNATURE}"
    for args in ([], ["--json"]):
        assert main(["score", signed, "--run", str(run), "--out", str(out), *args]) == 0
        assert main(["report", "--run", str(run), "--html", str(run / "page.html"), *args]) == 0
        assert main(["status", "--run", str(run), *args]) == 0
    check(capfd, run)
    assert (run / "ledger" / "pool" / "all.json").read_text().count(f"***@{host}/x.npy") == 1


def test_a_half_done_run_goes_on_with_another_password(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        raise StorageError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr("flows.steps.graph.building.find_pairs", stop)
        with pytest.raises(StorageError, match="stopped"):
            fit(f"http://me:{PASSWORD}@{host}/pool.npz", tmp_path / "run")
    fit(f"http://me:{OTHER}@{host}/pool.npz", tmp_path / "run")
    fit(tmp_path / "served" / "pool.npz", tmp_path / "here")
    assert kept(tmp_path / "run") == []
    without_names = ("pool/zarr.json",)
    one, two = (
        {
            key: value
            for key, value in results(tmp_path / name).items()
            if not key.endswith(without_names)
        }
        for name in ("run", "here")
    )
    assert one == two


EXITS: dict[str, tuple[int, list[str]]] = {
    "no such file": (2, ["train", "http://me:{p}@{host}/no.npz", "--run", "{run}"]),
    "refused": (2, ["train", "http://me:{p}x@{host}/pool.npz?sig=no", "--run", "{run}"]),
    "damaged": (2, ["train", "http://me:{p}@{host}/broken.npz", "--run", "{run}"]),
    "no server": (3, ["train", "http://me:{p}@127.0.0.1:9/pool.npz", "--run", "{run}"]),
    "no protocol": (2, ["train", "sftp://me:{p}@{host}/pool.npz", "--run", "{run}"]),
    "chain": (2, ["train", "filecache::http://me:{p}@{host}/pool.npz", "--run", "{run}"]),
    "invalid address": (2, ["train", "http://me:{p}@[/pool.npz", "--run", "{run}"]),
    "zero byte": (2, ["train", "http://me:{p}@{host}/\0", "--run", "{run}"]),
    "label column": (2, ["train", "http://me:{p}@{host}/pool.npz", "--label-column", "z"]),
    "run": (2, ["status", "--run", "memory://me:{p}@bucket/none"]),
    "folder": (2, ["train", "{pool}", "--run", "https://me:{p}@{host}/run"]),
    "usage": (2, ["train", "{pool}", "--run", "{run}", "--seed", "https://me:{p}@{host}/"]),
    "option": (2, ["train", "{pool}", "--run", "{run}", "--nothing=https://me:{p}@{host}/"]),
    "argument": (2, ["train", "{pool}", "https://me:{p}@{host}/", "--run", "{run}"]),
    "command": (2, ["https://me:{p}@{host}/"]),
    "scheduler": (2, ["train", "{pool}", "--run", "{run}", "--scheduler", "tcp://me:{p}@host:1"]),
    "address": (2, ["train", "{pool}", "--run", "{run}", "--scheduler", "me:{p}@host:1"]),
    "port": (
        4,
        ["train", "{pool}", "--run", "{run}", "--scheduler", "tcp://me:{p}@localhost:port"],
    ),
    "out": (2, ["score", "{pool}", "--run", "{run}", "--out", "ftp://me:{p}@{host}/s.parquet"]),
    "submit": (2, ["submit", "train", "http://me:{p}@{host}/pool.npz"]),
}


@pytest.mark.parametrize("name", EXITS)
def test_no_message_holds_a_password(
    name: str, host: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, args = EXITS[name]
    places = {"host": host, "run": tmp_path / "run", "pool": tmp_path / "served" / "pool.npz"}
    filled = [arg.format(p=PASSWORD, **places) for arg in args]
    if "--run" not in filled and filled[0] == "train":
        filled += ["--run", str(tmp_path / "run")]
    assert main(filled) == status
    assert "knnoise: " in check(capfd, tmp_path)


@pytest.mark.parametrize("error", [OSError, RuntimeError, ValueError, KeyError])
def test_no_unexpected_error_holds_a_password(
    error: type[Exception],
    host: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not even one that says it in words of its own, nor its trace."""

    def fail(*args: object, **more: object) -> None:
        try:
            raise OSError(f"connection of me with {PASSWORD} is lost")
        except OSError as cause:
            raise error(f"http://me:{OTHER}@{host}/x and {PASSWORD}") from cause

    monkeypatch.setattr("flows.steps.graph.building.find_anchors", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = f"http://me:{PASSWORD}@{host}/pool.npz"
    assert main(["train", source, "--run", str(tmp_path / "run")]) in (3, 4)
    check(capfd, tmp_path)


def test_the_reports_and_warnings_hold_no_password(pool: PoolWriter, tmp_path: Path) -> None:
    earlier = f"memory://me:{PASSWORD}@bucket/earlier"
    fit(pool(), earlier)
    report = fit(pool(seed=5), tmp_path / "run", compare_with=earlier)
    assert PASSWORD not in json.dumps(report)
    assert kept(tmp_path / "run") == []
    Location.of(earlier).remove()


def test_a_submitted_password_is_refused() -> None:
    with pytest.raises(InputError, match="the server would keep") as error:
        submit("train", {"source": f"https://host/pool.csv?sig={SIGNATURE}"})
    assert SIGNATURE not in str(error.value)
