"""Records of parts: what is committed, what is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.files.location import Location
from storage.runs.ledger import Ledger, Record, digest


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


def test_what_else_lies_beside_the_records_is_no_part(ledger: Ledger) -> None:
    commit(ledger, "a")
    for key in ("y.csv", "y.json", "step/b.csv", "step/c/d.json", "other/notes.txt"):
        ledger.location.replace(f"ledger/{key}", b"{}")
    assert ledger.steps() == ["step"]
    assert set(ledger.parts("step")) == {"a"}


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
    assert [record.part for record, _ in ledger.damaged(records)] == [part]


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


@pytest.mark.parametrize("harm", [delete, cut, flip])
def test_discarding_a_part_removes_its_damaged_files_alone(
    ledger: Ledger, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    record = commit(ledger, "a")
    harm(tmp_path / "data" / "a" / "y")
    ledger.discard(record)
    assert ledger.get("step", "a") is None
    assert ledger.location.files("data/a") == ["data/a/x"]


def test_part_made_again_after_damage_is_committed(ledger: Ledger, tmp_path: Path) -> None:
    first, file = commit(ledger, "a"), tmp_path / "data" / "a" / "y"
    before = file.read_bytes()
    flip(file)
    ledger.discard(first)
    file.write_bytes(before)
    assert commit(ledger, "a") == first


def test_second_commit_of_another_file_is_refused(ledger: Ledger) -> None:
    commit(ledger, "a")
    ledger.location.replace("data/a/z", b"new")
    with pytest.raises(StorageError, match="different bytes"):
        commit(ledger, "a")


def test_second_commit_keeps_the_first_record(ledger: Ledger) -> None:
    first = commit(ledger, "a")
    ledger.commit("step", "a", ["data/a"], {"n": 0}, {"seconds": 99.0})
    assert ledger.get("step", "a") == first


def test_files_that_grew_are_damaged(ledger: Ledger, tmp_path: Path) -> None:
    record, file = commit(ledger, "a"), tmp_path / "data" / "a" / "x"
    file.write_bytes(file.read_bytes() + b"0")
    assert [one for one, _ in ledger.damaged([record])] == [record]


def test_single_files_can_be_committed(ledger: Ledger) -> None:
    record = ledger.commit("step", "a", ["data/a/x", "data/b"], {}, {})
    assert set(record.files) == {"data/a/x", "data/b/x", "data/b/y"}


def test_part_of_no_files_is_never_damaged(ledger: Ledger) -> None:
    assert ledger.damaged([ledger.commit("step", "none", [], {"n": 1}, {})]) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b"\xff", b'{"step": 1}'])
def test_record_that_cannot_be_read_is_none_and_made_room_for(
    ledger: Ledger, content: bytes
) -> None:
    ledger.location.replace("ledger/step/a.json", content)
    assert ledger.records("step") == {}
    assert commit(ledger, "a") == ledger.get("step", "a")


def test_reading_removes_nothing(ledger: Ledger) -> None:
    ledger.location.replace("ledger/step/a.json", b"{")
    assert ledger.get("step", "a") is None
    assert ledger.records("step") == {}
    assert ledger.location.read("ledger/step/a.json") == b"{"


def test_commit_over_a_record_that_cannot_be_read_is_kept(ledger: Ledger) -> None:
    ledger.location.replace("ledger/step/a.json", b"{")
    assert commit(ledger, "a") == ledger.get("step", "a")


def test_forgotten_part_is_no_more(ledger: Ledger) -> None:
    commit(ledger, "a")
    ledger.forget("step", "a")
    ledger.forget("step", "a")
    assert ledger.records("step") == {}
    assert ledger.steps() == []


def test_result_comes_back_as_json_has_it(ledger: Ledger) -> None:
    made = ledger.commit("step", "a", ["data/a"], {"pair": (1, 2), "far": float("inf")}, {})
    assert made.result == {"pair": [1, 2], "far": float("inf")}
    assert ledger.get("step", "a") == made


def test_digest_does_not_depend_on_the_order_of_records(ledger: Ledger) -> None:
    a, b = commit(ledger, "a"), commit(ledger, "b")
    assert digest([a, b]) == digest([b, a]) != digest([a])


def test_plan_that_cannot_be_read_does_not_hide_the_others(ledger: Ledger) -> None:
    ledger.plan("a", ["1"])
    ledger.plan("b", ["2"])
    ledger.location.replace("plans/a.json", b"{")
    assert ledger.plans()["b"] == ["2"]


def test_record_under_the_name_of_another_part_is_none(ledger: Ledger) -> None:
    commit(ledger, "a")
    ledger.location.replace("ledger/step/b.json", ledger.location.read("ledger/step/a.json") or b"")
    assert list(ledger.records("step")) == ["a"]
    assert ledger.parts("step") == {"a": ledger.get("step", "a"), "b": None}


def test_record_edited_in_a_number_is_none(ledger: Ledger) -> None:
    commit(ledger, "a", result=1)
    content = ledger.location.read("ledger/step/a.json") or b""
    assert b'"n": 1' in content
    ledger.location.replace("ledger/step/a.json", content.replace(b'"n": 1', b'"n": 2'))
    assert ledger.get("step", "a") is None
    assert ledger.parts("step") == {"a": None}


def test_damaged_plan_is_noted_again(ledger: Ledger) -> None:
    ledger.plan("a", ["1"])
    ledger.location.replace("plans/a.json", b"{")
    ledger.plan("a", ["1"])
    assert ledger.plans() == {"a": ["1"]}


def test_groups_that_files_lie_in_are_synced_with_them(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose metadata is there, of Zarr alone: `runs.zarr/blocks` has none here."""
    for key in ("runs.zarr/zarr.json", "runs.zarr/blocks/0/zarr.json", "runs.zarr/blocks/0/x/c/0"):
        ledger.location.replace(key, b"1")
    ledger.location.replace("zarr.json", b"of nobody")
    synced: list[str] = []
    monkeypatch.setattr(Location, "sync", lambda self, keys, but: synced.extend(keys))
    ledger.commit("step", "a", ["runs.zarr/blocks/0/x"], {}, {})
    groups = ["runs.zarr/blocks/0/zarr.json", "runs.zarr/zarr.json"]
    assert sorted(synced) == sorted(["runs.zarr/blocks/0/x/c/0", *groups])
