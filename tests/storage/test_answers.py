"""Answers of people: every one that was given is there, whatever happened."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from zipfile import ZipFile

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.styles import PatternFill

from flows.review import take
from flows.review.tables import export_answers, labels_to_import
from storage import answers
from storage.answers import (
    LONGEST_LINE,
    Answer,
    Answers,
    AnswersFile,
    Asked,
    Origin,
    RowAnswers,
)
from storage.errors import InputError, StorageError
from storage.sources.joins import read_answers
from storage.sources.values.labels import Label

ORIGIN = Origin("abc", ("no", "yes"), 100, "runs/a")


def answer(name: str, *rows: int, label: str | None = "yes", by: str = "ann") -> Answer:
    asked = tuple(Asked(row, "no", "useful", True) for row in rows)
    return Answer(name, asked, label, by, "2026-01-01T00:00:00Z")


@pytest.fixture
def log(tmp_path: Path) -> AnswersFile:
    return AnswersFile.open(str(tmp_path / "answers.jsonl"), ORIGIN)


def test_a_folder_in_the_place_of_answers_is_not_to_be_removed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": is a folder; name a file$"):
        AnswersFile.open(str(tmp_path), ORIGIN)


def test_answers_that_cannot_begin_may_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"; or give --answers a file elsewhere$"):
        AnswersFile.open(str(tmp_path / "file" / "answers.jsonl"), ORIGIN)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
            st.sampled_from(["no", "yes", None]),
            st.sampled_from(["ann", "bob"]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_what_stands_is_the_last_word_of_each(events: list[tuple[object, ...]]) -> None:
    """Against a list of all events, gone through anew for every row."""
    log, model = Answers(), []
    from storage.answers import _line, asdict

    for name, rows, label, by, undo in events:
        one = answer(str(name), *rows, label=label, by=by)  # type: ignore[misc, arg-type]
        if undo:
            log.see(_line({"undo": one.id}).strip())
            model = [m for m in model if m.id != one.id] + [answer(one.id, label=None, by="-")]
        else:
            log.see(_line(asdict(one)).strip())
            if one.id not in [m.id for m in model]:
                model.append(one)
    for row in range(5):
        last = {m.reviewer: m.label for m in model if row in [a.row for a in m.rows]}
        distinct = {label for label in last.values() if label is not None}
        assert log.of_row(row).labels == last
        assert log.of_row(row).conflict == (len(distinct) > 1)
        assert log.of_row(row).label == (distinct.pop() if len(distinct) == 1 else None)
        assert (row in log) == bool(last)


def test_an_answer_is_kept_once_and_survives(log: AnswersFile) -> None:
    assert log.add(answer("1", 4, 5))
    assert not log.add(answer("1", 4, 5))
    assert log.add(answer("2", 4, label="no", by="bob"))
    again = AnswersFile.open(str(log.path), ORIGIN).answers
    assert again.of_row(4).conflict
    assert again.of_row(5).label == "yes"
    assert log.undo("1") == answer("1", 4, 5)
    assert log.undo("1") is None
    assert not log.add(answer("1", 4))  # taken back for good
    assert [said.row for said in log.answers.rows()] == [4]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_crash_amid_an_answer_costs_that_line_only(log: AnswersFile, cut: int) -> None:
    log.add(answer("1", 1))
    other = AnswersFile.open(str(log.path), ORIGIN)
    log.add(answer("2", 2))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-cut])
    other.refresh()
    assert 2 not in other.answers
    other.add(answer("3", 3))
    with pytest.raises(StorageError, match="line 4 is damaged or cut off"):
        AnswersFile.open(str(log.path), ORIGIN)
    lines = log.path.read_bytes().split(b"\n")
    log.path.write_bytes(b"\n".join([*lines[:3], *lines[4:]]))  # as the message says
    last = AnswersFile.open(str(log.path), ORIGIN).answers
    assert [said.row for said in last.rows()] == [1, 3]


@pytest.mark.parametrize("harm", ["edited", "cut", "a long line", "emptied"])
def test_damaged_answers_are_named_and_not_used(log: AnswersFile, harm: str) -> None:
    for row in range(9):
        log.add(answer(str(row), row))
    log.undo("8")
    whole = log.path.read_bytes()
    content = {
        "edited": whole.replace(b'"row": 3', b'"row": 2'),
        "cut": whole[: len(whole) // 2],
        "a long line": whole.replace(b'\n{"digest"', b"\n" + bytes(17 << 20) + b'{"digest"', 1),
        "emptied": b"",
    }[harm]
    log.path.write_bytes(content)
    error: type[Exception] = InputError if harm == "emptied" else StorageError
    line = {"edited": "line 6 is", "cut": "line 7 is", "a long line": "line 2 is"}
    message = line.get(harm, "no answers of knnoise")
    for read in (read_answers, AnswersFile.open, lambda path: labels_to_import(path, ORIGIN)):
        with pytest.raises(error, match=message):
            read(str(log.path))
    if harm != "edited":
        with pytest.raises(StorageError, match="was cut or written anew while it was open"):
            log.add(answer("10", 10))
        assert log.path.read_bytes() == content


def test_an_answer_longer_than_is_read_again_is_refused(log: AnswersFile) -> None:
    before = log.path.read_bytes()
    with pytest.raises(InputError, match="it is not kept"):
        log.add(Answer("long", (Asked(3, None, "wanted", False),), "x" * LONGEST_LINE, "ann", ""))
    assert log.path.read_bytes() == before


def test_an_answer_that_a_full_disk_cut_off_leaves_no_damage(
    log: AnswersFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.add(answer("1", 1))
    write, before = os.write, log.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda handle, content: write(handle, content[:50]))
        with pytest.raises(StorageError, match=r"the answer is not kept .*the disk is full"):
            log.add(answer("2", 2))
    assert log.path.read_bytes() == before
    assert log.add(answer("2", 2))
    assert 2 in AnswersFile.open(str(log.path), ORIGIN).answers


def test_answers_given_at_once_are_synced_once(
    log: AnswersFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    assert log.add(*(answer(str(row), row) for row in range(50))) == 50
    assert len(synced) == 1
    assert len([*AnswersFile.open(str(log.path), ORIGIN).answers.rows()]) == 50


def test_two_processes_lose_nothing(log: AnswersFile) -> None:
    program = textwrap.dedent("""
        import sys
        from storage.answers import Answer, AnswersFile, Asked
        file = AnswersFile.open(sys.argv[1])
        for i in range(60):
            asked = (Asked(i, "no", "useful", True),)
            file.add(Answer(f"{sys.argv[2]}-{i}", asked, "yes", sys.argv[2], "t"))
    """)
    command = [sys.executable, "-c", program, str(log.path)]
    both = [subprocess.Popen([*command, name]) for name in ("ann", "bob")]
    assert [process.wait() for process in both] == [0, 0]
    log.refresh()
    assert len(log.answers.answers) == 120
    assert log.answers.damaged == []
    assert all(said.labels == {"ann": "yes", "bob": "yes"} for said in log.answers.rows())


def test_answers_of_other_rows_are_refused(log: AnswersFile, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"other rows \(of runs/a\)"):
        AnswersFile.open(str(log.path), Origin("other", ("no", "yes"), 100, "runs/b"))
    (tmp_path / "note.jsonl").write_text("hello\n")
    with pytest.raises(InputError, match="no answers of knnoise"):
        AnswersFile.open(str(tmp_path / "note.jsonl"), ORIGIN)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.xlsx"])
def test_exported_and_imported(log: AnswersFile, tmp_path: Path, name: str) -> None:
    log.add(answer("1", 4, 5))
    log.add(answer("2", 4, label="no", by="bob"))
    log.add(answer("3", 7, label=None))
    out = str(tmp_path / name)
    assert export_answers(log, out) == 4
    assert read_answers(out).source == "abc"
    assert said_of(out) == said_of(str(log.path)) == list(log.answers.rows())
    labels = [(4, "ann", "yes"), (4, "bob", "no"), (5, "ann", "yes")]
    assert labels_to_import(out, ORIGIN) == (labels, [])


def test_a_label_that_is_a_formula_comes_back_as_it_was(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://x.example","a, b")'
    log = AnswersFile.open(str(tmp_path / "a.jsonl"), Origin("abc", ("no", formula), 9, "runs/a"))
    log.add(answer("1", 4, label=formula, by="@ann"))
    export_answers(log, str(tmp_path / "out.csv"))
    assert said_of(str(tmp_path / "out.csv")) == [RowAnswers(4, {"@ann": formula})]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_true_and_false_come_back_from_any_table(tmp_path: Path, kind: str) -> None:
    origin = Origin("abc", (False, True), 9, "runs/a")
    log = AnswersFile.open(str(tmp_path / "a.jsonl"), origin)
    log.add(Answer("1", (Asked(4, True, "useful", True),), False, "ann", "t"))
    log.add(Answer("2", (Asked(5, False, "useful", True),), True, "ann", "t"))
    out = str(tmp_path / f"out.{kind}")
    export_answers(log, out)
    labels, _ = labels_to_import(out, origin)
    assert [(row, label) for row, _, label in labels] == [(4, False), (5, True)]
    assert {type(label) for _, _, label in labels} == {bool}


def test_a_workbook_comes_back_as_a_spreadsheet_program_saves_it(
    log: AnswersFile, tmp_path: Path
) -> None:
    """Whole numbers as 4.0, cleared cells and styled rows below, a further column."""
    log.add(answer("1", 4, 5))
    log.add(answer("2", 7, label=None))
    export_answers(log, str(tmp_path / "out.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    (sheet,) = book.worksheets
    sheet["B3"] = "no"
    sheet["H1"], sheet["H2"] = "remark", 0.5
    for row in range(5, 40):
        sheet[f"A{row}"].fill = PatternFill("solid", "FFFF00")
        sheet[f"B{row}"] = ""
    book.save(tmp_path / "edited.xlsx")
    with (
        ZipFile(tmp_path / "edited.xlsx") as saved,
        ZipFile(tmp_path / "back.xlsx", "w") as back,
    ):
        for name in saved.namelist():
            back.writestr(name, re.sub(rb"<v>([457])</v>", rb"<v>\1.0</v>", saved.read(name)))
    labels = [(4, "ann", "yes"), (5, "ann", "no")]
    assert labels_to_import(str(tmp_path / "back.xlsx"), ORIGIN) == (labels, [])


def said_of(path: str) -> list[RowAnswers]:
    """What a file says of each row."""
    found = read_answers(path)
    labels: dict[int, dict[str, Label | None]] = {}
    for row, label, who in zip(found.row, found.label, found.reviewer, strict=True):
        value = None if label < 0 else found.values[label]
        labels.setdefault(int(row), {})[found.reviewers[who]] = value
    return [RowAnswers(row, labels[row]) for row in sorted(labels)]


BAD = {
    "no row": ("row,label\nx,yes\n", "'x' at row 0"),
    "negative": ("row,label\n1,no\n-3,yes\n", "'-3' at row 1"),
    "fraction": ("row,label\n1.5,no\n", "no row number"),
    "unknown row": ("row,label\n100,no\n", "row 100 is none of the 100"),
    "unknown label": ("row,label\n3,maybe\n", "'maybe' of row 3 is none of 'no', 'yes'"),
    "column": ("id,label\n3,yes\n", "no column 'row'"),
    "another source": ("row,label,source\n3,yes,zzz\n", "another source"),
    "several sources": ("row,label,source\n3,yes,abc\n4,yes,zzz\n", "several sources"),
    "twice": ("row,row,label\n3,3,yes\n", "twice"),
    "ragged": ("row,label\n3\n", "has 1 cells, the header has 2"),
    "empty": ("", "the file is empty"),
    "beyond 64 bits": ("row,label\n9223372036854775808,yes\n", "no row number"),
    "truth": ("row,label\ntrue,yes\n", "no row number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        labels_to_import(str(tmp_path / "bad.csv"), ORIGIN)


def test_a_table_of_another_tool_needs_two_columns(tmp_path: Path) -> None:
    table = pa.table({"row": [3, 3, 9, 9, 5], "label": ["yes", "yes", "no", "yes", None]})
    pq.write_table(table, tmp_path / "tool.parquet")
    row, label, n_conflicts = read_answers(str(tmp_path / "tool.parquet")).agreed()
    assert (row.tolist(), label.tolist(), n_conflicts) == ([3], [0], 1)


@pytest.mark.parametrize("column", ["row", "label", "reviewer", "source"])
def test_columns_that_hold_no_values_are_refused(tmp_path: Path, column: str) -> None:
    columns = {"row": [3], "label": ["yes"], "reviewer": ["ann"], column: [{"is": "yes"}]}
    pq.write_table(pa.table(columns), tmp_path / "tool.parquet")
    message = f"column '{column}' is struct<is: string>; its values must be text, numbers"
    with pytest.raises(InputError, match=message):
        labels_to_import(str(tmp_path / "tool.parquet"), ORIGIN)


def test_rows_that_one_reviewer_labels_twice_are_known(tmp_path: Path) -> None:
    """The last line counts; who did not know before, or says the same again, revokes nothing."""
    table = pa.table(
        {
            "row": [9, 3, 5, 3, 5, 7, 7],
            "label": ["no", "yes", None, "no", "yes", "no", "no"],
            "reviewer": ["ann", "ann", "ann", "ann", "ann", "ann", "bob"],
        }
    )
    pq.write_table(table, tmp_path / "tool.parquet")
    labels, revoked = labels_to_import(str(tmp_path / "tool.parquet"), ORIGIN)
    assert labels[:2] == [(3, "ann", "no"), (5, "ann", "yes")]
    assert revoked == [3]
    file = AnswersFile.open(str(tmp_path / "answers.jsonl"), ORIGIN)
    path = str(tmp_path / "tool.parquet")
    assert (take(file, path), take(file, path)) == ((5, [3]), (0, []))


def test_a_log_of_more_answers_than_are_held_is_refused(
    log: AnswersFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.add(answer("a", 1, 2))
    log.add(answer("b", 3, 4))
    monkeypatch.setattr(answers, "MOST_ROWS", 5)
    whole = log.path.read_bytes()
    with pytest.raises(InputError, match=r"more than 5 rows"):
        log.add(answer("c", 5), answer("d", 6))
    assert log.path.read_bytes() == whole
    monkeypatch.setattr(answers, "MOST_ROWS", 3)
    with pytest.raises(InputError, match=r"answers\.jsonl: answers on more than 3 rows"):
        AnswersFile.open(str(log.path), ORIGIN)
    with pytest.raises(InputError, match="more than 3 rows"):
        read_answers(str(log.path))
