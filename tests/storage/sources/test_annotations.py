"""Long tables of annotations: joined by id or row, whatever their order and the chunks read."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import generators

from storage.errors import InputError
from storage.sources.base import Source, unchanged
from storage.sources.blocks import keys, majority
from storage.sources.ids import IdsOfLines
from storage.sources.joins import read_annotations, with_annotations, with_corrections
from storage.sources.opening import open_source
from storage.sources.request import PLAIN, Coding, Columns, Gaps

N = 50
NAMES = [f"p{i}" for i in range(100)]


def table(rng: np.random.Generator, ids: list[str]) -> pd.DataFrame:
    """Up to three labels of most rows."""
    lines = [
        (name, f"who{who}", str(rng.choice(["no", "yes", "?"])))
        for name in ids
        for who in rng.permutation(4)[: rng.integers(0, 4)]
    ]
    return pd.DataFrame(lines, columns=["id", "annotator", "label"]).sample(frac=1, random_state=1)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    rng = np.random.default_rng(0)
    ids = [f"p{i}" if i % 2 else str(i) for i in rng.permutation(N)]
    frame = pd.DataFrame({"id": ids, "a": rng.normal(size=N), "b": rng.normal(size=N)})
    frame.loc[::7, "a"] = np.nan
    frame.to_csv(tmp_path / "pool.csv", index=False)
    table(rng, ids).to_csv(tmp_path / "votes.csv", index=False)
    drop = Coding(drop=True)
    return open_source(
        tmp_path / "pool.csv", with_labels=False, columns=Columns(id="id"), coding=drop
    )


@pytest.mark.parametrize(("rows", "name"), [(1, "csv"), (7, "csv"), (100, "csv"), (7, "jsonl")])
def test_every_row_gets_its_annotations(
    source: Source, tmp_path: Path, rows: int, name: str
) -> None:
    votes = pd.read_csv(tmp_path / "votes.csv", dtype=str)
    votes.to_json(tmp_path / "votes.jsonl", orient="records", lines=True)
    joined = with_annotations(source, str(tmp_path / f"votes.{name}"), None, None, PLAIN)
    found, gaps = joined.annotations, Gaps()
    assert found is not None
    long = pd.read_csv(tmp_path / "votes.csv", dtype=str)
    seen = 0
    for chunk in joined.chunks(rows, gaps=gaps):
        assert chunk.id is not None
        assert chunk.label is not None
        votes = found.of(chunk)
        for place, (name, label) in enumerate(zip(chunk.id, chunk.label, strict=True)):
            mine = long[long.id == name]
            told = votes.place == place
            said = [found.values[code] for code in votes.label[told]]
            who = [found.annotators[code] for code in votes.annotator[told]]
            assert sorted(zip(who, said, strict=True)) == sorted(
                mine[["annotator", "label"]].itertuples(index=False, name=None)
            )
            count = Counter(said)
            assert (label is None) == (not said)
            assert not said or count[label] == max(count.values())
            seen += len(said)
    assert seen > 50
    found.check(gaps.until)  # rows left out for a gap have been there, too


def test_lines_in_any_order_are_the_same_annotations(source: Source, tmp_path: Path) -> None:
    one = read_annotations(str(tmp_path / "votes.csv"), source, None, None, PLAIN)
    frame = pd.read_csv(tmp_path / "votes.csv", dtype=str).iloc[::-1]
    frame.to_parquet(tmp_path / "votes.parquet", index=False)
    two = read_annotations(str(tmp_path / "votes.parquet"), source, None, None, PLAIN)
    assert one.values == two.values == ("?", "no", "yes")
    assert np.array_equal(one.row, two.row)
    assert np.array_equal(one.majority, two.majority)
    said = [
        np.sort(3 * np.repeat(np.arange(len(a.row)), np.diff(a.start)) + a.label)
        for a in (one, two)
    ]
    assert np.array_equal(*said)


@given(generators(), st.integers(1, 4))
def test_the_majority_is_that_of_a_loop(rng: np.random.Generator, n_labels: int) -> None:
    key = np.unique(rng.integers(0, 2**63, 20).astype(np.uint64))
    length = rng.integers(1, 6, len(key))
    start = np.concatenate([[0], np.cumsum(length)])
    label = rng.integers(0, n_labels, start[-1]).astype(np.int16)
    found = majority(key, start, label)
    for row, code in enumerate(found):
        count = Counter(label[start[row] : start[row + 1]].tolist())
        assert count[int(code)] == max(count.values())
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(start)])
    assert np.array_equal(majority(key, start, label[order]), found)


def test_ties_fall_on_all_labels_alike() -> None:
    key, n = np.arange(3000, dtype=np.uint64), 3000
    found = majority(key, 3 * np.arange(n + 1), np.tile(np.arange(3, dtype=np.int16), n))
    assert np.bincount(found) / n == pytest.approx(1 / 3, abs=0.03)


def test_whole_numbers_are_their_own_keys() -> None:
    found = keys(pa.array(["7", "007", "p7", "7", "-7"]))
    assert found[0] == found[3] == 7
    assert len(set(found.tolist())) == 4


def test_ids_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    hashed = ((name, keys(pa.array([name])).view(np.int64)[0]) for name in NAMES)
    name, twin = next((name, key) for name, key in hashed if abs(key) < 10**18)
    (tmp_path / "pool.csv").write_text(f"id,a\n{twin},0\n{name},1\n")
    source = open_source(tmp_path / "pool.csv", with_labels=False, columns=Columns(id="id"))
    (tmp_path / "votes.csv").write_text(f"id,annotator,label\n{name},ann,yes\n")
    (chunk,) = with_annotations(source, str(tmp_path / "votes.csv"), None, None, PLAIN).chunks(9)
    assert chunk.label is not None
    assert chunk.label.tolist() == [None, "yes"]
    (tmp_path / "votes.csv").write_text(f"id,annotator,label\n{name},ann,yes\n{twin},ann,no\n")
    (chunk,) = with_annotations(source, str(tmp_path / "votes.csv"), None, None, PLAIN).chunks(9)
    assert chunk.label is not None
    assert chunk.label.tolist() == ["no", "yes"]


def test_ids_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines have them, and as many as are allowed."""
    monkeypatch.setattr("storage.sources.ids._PIECE_BYTES", 100)
    monkeypatch.setattr("storage.sources.ids.MOST_ID_BYTES", 2000)
    lines, wanted = IdsOfLines("votes.csv"), []
    for start in range(100):
        wanted += (batch := [f"p{(start + i) % 90}" for i in range(20)])
        lines.see(pa.array(batch).dictionary_encode())
    coded = lines.coded()
    assert coded.to_pylist() == wanted
    assert len(coded.dictionary) == 90
    with pytest.raises(InputError, match="ids of more than 2,000 bytes"):
        lines.see(pa.array([f"q{i}" for i in range(1000)]).dictionary_encode())


@pytest.mark.parametrize("what", ["annotations", "corrections"])
def test_a_source_written_after_its_ids_were_matched_is_refused(
    source: Source, tmp_path: Path, what: str
) -> None:
    if what == "annotations":
        joined = with_annotations(source, str(tmp_path / "votes.csv"), None, None, PLAIN)
    else:
        pd.read_csv(tmp_path / "votes.csv")[:1].to_csv(tmp_path / "checked.csv", index=False)
        joined = with_corrections(source, str(tmp_path / "checked.csv"))
    rows = pd.read_csv(tmp_path / "pool.csv", dtype=str)
    rows[::-1].to_csv(tmp_path / "pool.csv", index=False)
    recorded = joined.fingerprint(with_digest=True)
    refused = pytest.raises(InputError, match=r"pool.csv was written while it was read")
    with refused, unchanged(recorded, joined):
        pass


def test_a_folder_of_tables_in_other_words(source: Source, tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "votes.csv", dtype=str)
    folder = tmp_path / "votes"
    folder.mkdir()
    renamed = frame.rename(columns={"annotator": "who", "label": "said"}).assign(more=1.5)
    renamed[:20].to_csv(folder / "a.csv", index=False)
    renamed[20:].to_csv(folder / "b.csv", index=False)
    found = with_annotations(source, str(folder), "said", "who", PLAIN)
    assert found.label_name == "said"
    assert [part.role for part in found.parts] == ["features", "annotations", "annotations"]
    assert found.annotations is not None
    assert len(found.annotations.label) == len(frame)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,annotator,label\np1,,yes\n", "column 'annotator' is empty at row 0"),
        ("id,annotator,label\n,a,yes\n", "column 'id' is empty at row 0"),
        ("id,annotator,label\np1,a,\n", "holds no label"),
        ('id,annotator,label\np1,a,"yes\np3,b,no"\n', "column 'label' holds a line break at row 0"),
        ("id,annotator,label\np1,a,no\np3,a,yes\np1,a,no\n", "id 'p1' twice, at rows 0 and 2"),
        ("id,label\np1,a\n", "no column 'annotator', only 'id', 'label'"),
        ("item,annotator,label\np1,a,b\n", "; call its column 'id', as in "),
        ("id,annotator,label\n" + "".join(f"p1,{i},1\n" for i in range(10_001)), "by row 10,000"),
        ("id,annotator,label\n" + "".join(f"p1,{i},x{i}\n" for i in range(1_001)), "1,000 values"),
    ],
)
def test_bad_tables_are_refused(source: Source, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "votes.csv").write_text(text)
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as found:
        read_annotations(str(tmp_path / "votes.csv"), source, None, None, PLAIN)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("column", ["annotator", "label"])
def test_what_is_no_value_is_refused(source: Source, tmp_path: Path, column: str) -> None:
    columns = {"id": ["p1"], "annotator": ["a"], "label": ["yes"], column: [{"is": "yes"}]}
    pq.write_table(pa.table(columns), tmp_path / "votes.parquet")
    message = f"column '{column}' is struct<is: string>; its values must be text, numbers"
    with pytest.raises(InputError, match=message):
        read_annotations(str(tmp_path / "votes.parquet"), source, None, None, PLAIN)


def test_arrays_are_no_annotations(source: Source, tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.zeros((4, 3)))
    with pytest.raises(InputError, match="must be a table"):
        read_annotations(str(tmp_path / "votes.npy"), source, None, None, PLAIN)
