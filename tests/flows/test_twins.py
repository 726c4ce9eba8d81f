"""A part that runs twice at once: the late one neither removes nor changes what is committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from flows.engine.job import Output, execute
from flows.engine.parts import Part
from storage import StorageError
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import read_group, write_group
from storage.files.location import Location, RunStore
from storage.runs.pool import ChunkWriter
from storage.runs.run import Run

PART = Part("block-00000", None)
ROWS = np.arange(6)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    begun = Run.of(tmp_path / "run")
    begun.begin({"parameters": {}})
    return begun


def sample(value: float) -> dict[str, np.ndarray]:
    return {"x": np.full((6, 2), value, np.float32), "row": ROWS}


def group_part(run: Run, value: float) -> Output:
    write_group(run.store, "samples/partition", "sample", sample(value))
    return Output([run.key("samples/partition")], 6)


def exchange_part(run: Run, value: float) -> Output:
    exchange = Exchange(run.location, "route")
    exchange.send("rows-000000", ROWS % 2, 2, sample(value))
    return Output([exchange.key("rows-000000")], 6)


def chunk_part(run: Run, value: float) -> Output:
    writer = ChunkWriter(run, "bounds", 6, 6)
    return Output(writer.chunk(0, bound=np.full(6, value)), 6)


PARTS = [group_part, exchange_part, chunk_part]
Do = Callable[[Run, float], Output]


def content(run: Run) -> dict[Path, tuple[bytes, int]]:
    files = (file for file in Path(run.location.url).rglob("*") if file.is_file())
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize("do", PARTS)
def test_late_twin_writes_nothing(run: Run, do: Do) -> None:
    """The twin has computed when the part is committed, and comes out different."""

    def late(run: Run, part: Part) -> Output:
        if do is chunk_part:
            ChunkWriter(run, "bounds", 6, 6)
        execute(run, "step", lambda r, _: do(r, 1.0), part)
        late.before = content(run)  # type: ignore[attr-defined]
        return do(run, 2.0)

    record = execute(run, "step", late, PART)
    assert content(run) == late.before  # type: ignore[attr-defined]
    assert record == run.ledger.get("step", PART.name)
    assert run.ledger.damaged([record]) == []


@pytest.mark.parametrize("do", PARTS)
def test_twin_between_look_and_commit_does_no_harm(run: Run, do: Do) -> None:
    """The twin is committed after the part began to write: equal bytes, so both are right."""

    def slow(run: Run, part: Part) -> Output:
        output = do(run, 1.0)
        execute(run, "step", lambda r, _: do(r, 1.0), part)
        return output

    record = execute(run, "step", slow, PART)
    assert record == run.ledger.get("step", PART.name)
    assert run.ledger.damaged([record]) == []


@pytest.mark.parametrize("do", PARTS)
def test_writing_over_never_removes(run: Run, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    do(run, 1.0)
    gone: list[str] = []

    async def delete(self: RunStore, key: str) -> None:
        gone.append(key)

    monkeypatch.setattr(RunStore, "delete", delete)
    before = set(content(run))
    do(run, 2.0)
    assert set(content(run)) == before
    assert not gone


def test_record_names_what_the_part_wrote_alone(run: Run) -> None:
    """What an earlier attempt left behind is no part of the record."""
    clean = execute(run, "step", lambda r, _: group_part(r, 1.0), PART)
    run.ledger.forget("step", PART.name)
    for key in ("x/c/0/9", "x/c/0/0.5e0b.partial", "old/zarr.json"):
        run.location.replace(f"results.zarr/samples/partition/{key}", b"left")
    again = execute(run, "step", lambda r, _: group_part(r, 1.0), PART)
    assert again.files == clean.files


def test_group_of_another_shape_is_written_over(run: Run) -> None:
    write_group(run.store, "g", "sample", {"x": np.ones((9, 3), np.float32), "row": np.arange(9)})
    write_group(run.store, "g", "sample", sample(2.0))
    found = read_group(run.store, "g")
    np.testing.assert_array_equal(found["x"], sample(2.0)["x"])
    np.testing.assert_array_equal(found["row"], ROWS)


def test_the_format_is_not_zarr_s_default(run: Run) -> None:
    with zarr.config.set({"default_zarr_format": 2}):
        write_group(run.store, "g", "sample", sample(2.0))
    np.testing.assert_array_equal(read_group(run.store, "g")["x"], sample(2.0)["x"])


def test_run_of_another_length_is_written_over(run: Run) -> None:
    exchange = Exchange(run.location, "route")
    exchange.send("p", np.zeros(50, int), 1, {"row": np.arange(50)})
    exchange.send("p", np.zeros(6, int), 1, {"row": ROWS.astype(np.int32)})
    found = exchange.receive([Slice("p", 0, 6)])
    np.testing.assert_array_equal(found["row"], ROWS)


@pytest.mark.parametrize("do", PARTS)
def test_file_that_comes_back_other_than_written_is_not_committed(
    run: Run, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that keeps half of what it was given, and says that all is well."""
    if do is chunk_part:
        ChunkWriter(run, "bounds", 6, 6)
    digest = Location.digest

    def half(self: Location, key: str) -> tuple[int, str] | None:
        path = Path(self.path(key))
        if "/c/" in key or key.endswith(".run"):
            path.write_bytes(path.read_bytes()[:-3])
        return digest(self, key)

    monkeypatch.setattr(Location, "digest", half)
    with pytest.raises(StorageError, match="read back other than it was written"):
        execute(run, "step", lambda r, _: do(r, 1.0), PART)
    assert run.ledger.get("step", PART.name) is None
