"""Records of parts: what is committed, what is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.ledger import Ledger, Record, digest
from storage.location import Location


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    location = Location.of(tmp_path)
    for part in ("a", "b"):
        for name in ("x", "y"):
            location.replace(f"data/{part}/{name}", f"{part}{name}".encode() * 100)
    return Ledger(location)


def commit(ledger: Ledger, part: str, result: int = 0) -> Record:
    return ledger.commit("step", part, [f"data/{part}"], {"n": result}, {"seconds": 1.0})


def test_records_come_back(ledger: Ledger) -> None:
    made = {part: commit(ledger, part) for part in ("b", "a")}
    assert ledger.records("step") == made
    assert ledger.get("step", "a") == made["a"]
    assert ledger.steps() == ["step"]
    assert set(made["a"].files) == {"data/a/x", "data/a/y"}


def test_what_was_not_written_is_not_committed(ledger: Ledger) -> None:
    with pytest.raises(StorageError, match="was not written"):
        ledger.commit("step", "c", ["data/c"], {}, {})
    assert ledger.get("step", "c") is None


def test_second_commit_of_the_same_bytes_is_accepted(ledger: Ledger) -> None:
    assert commit(ledger, "a") == commit(ledger, "a")


def test_second_commit_of_other_bytes_is_refused(ledger: Ledger) -> None:
    commit(ledger, "a")
    with pytest.raises(StorageError, match="different bytes"):
        commit(ledger, "a", result=1)


def delete(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[17] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [delete, cut, flip])
@pytest.mark.parametrize("part", ["a", "b"])
def test_damage_is_found_in_the_part_it_is_in(
    ledger: Ledger, tmp_path: Path, part: str, harm: Callable[[Path], None]
) -> None:
    records = [commit(ledger, "a"), commit(ledger, "b")]
    assert ledger.damaged(records) == []
    harm(tmp_path / "data" / part / "y")
    assert [record.part for record in ledger.damaged(records)] == [part]


def test_digest_tells_outputs_apart_but_not_costs(ledger: Ledger) -> None:
    record = commit(ledger, "a")
    slower = Record(record.step, record.part, record.files, record.result, {"seconds": 9.0})
    other = Record(record.step, record.part, record.files, {"n": 5}, record.cost)
    assert digest([record]) == digest([slower])
    assert digest([record]) != digest([other])


def test_plans_are_noted_once_and_in_order(ledger: Ledger) -> None:
    ledger.plan("z", ["1", "2"])
    ledger.plan("a", ["all"])
    ledger.plan("z", ["3"])
    assert list(ledger.plans().items()) == [("z", ["1", "2"]), ("a", ["all"])]
