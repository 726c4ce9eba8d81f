"""Labels that people gave, matched to rows by id: out as a table, and back in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
from runs import PoolWriter, fit

from flows.cli import main
from storage.answers import AnswersFile
from storage.errors import InputError

N = 600
IDS = [f"{3 * n:05d}" for n in range(N)]
"""With leading zeros."""
OPTIONS: dict[str, Any] = {"label_column": "sick", "id_column": "customer"}


@pytest.fixture
def table(pool: PoolWriter) -> pd.DataFrame:
    data = np.load(pool())
    table = pd.DataFrame({"customer": IDS} | {c: data["X"][:, n] for n, c in enumerate("abcd")})
    return table.assign(sick=np.where(data["y"] == 1, "yes", "no"))


def write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".xlsx":
        table.to_excel(path, index=False)
    elif path.suffix == ".npz":
        x = table[list("abcd")].to_numpy()
        ids = table["customer"].to_numpy().astype("U")
        np.savez(path, X=x, sick=table["sick"].to_numpy().astype("U"), customer=ids)
    else:
        table.to_parquet(path, row_group_size=100)
    return path


def corrected(run: Path) -> dict[str, str]:
    """The certain labels, by id."""
    verdicts = pq.read_table(run / "label_issues.parquet").to_pandas()
    certain = verdicts[verdicts.label_quality == 1]
    return dict(zip(certain.customer, certain.given_label, strict=True))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "xlsx"])
def test_corrections_go_by_id(table: pd.DataFrame, tmp_path: Path, kind: str) -> None:
    labels = {IDS[9]: "yes", IDS[500]: "no", IDS[4]: "yes"}
    checked = pd.DataFrame({"customer": labels.keys(), "label": labels.values()})
    write(checked, tmp_path / "checked.xlsx")
    source = write(table, tmp_path / f"pool.{kind}")
    options = {**OPTIONS, "corrections": str(tmp_path / "checked.xlsx")}
    report = fit(source, tmp_path / "run", **options)
    assert report["corrections"]["n_rows"] == 3
    assert labels.items() <= corrected(tmp_path / "run").items()
    assert fit(source, tmp_path / "run", **options) == report


def test_ids_count_where_rows_are_left_out(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a row with a gap, too, which is not trained on, as is said; a row without a label gets
    one."""
    table.loc[[3, 8], "a"] = np.nan
    table.loc[[8, 11], "sick"] = None
    checked = pd.DataFrame({"customer": [IDS[n] for n in (20, 3, 8, 11, 20)], "label": "yes"})
    checked = checked.assign(reviewer="ann")
    checked.loc[0, "label"] = "no"
    options = {**OPTIONS, "impute": "drop", "unlabeled": "predict", "quiet": False}
    options |= {"corrections": str(write(checked, tmp_path / "checked.csv"))}
    report = fit(write(table, tmp_path / "pool.csv"), tmp_path / "run", **options)
    assert report["corrections"]["n_rows"] == 2
    assert {IDS[11]: "yes", IDS[20]: "yes"}.items() <= corrected(tmp_path / "run").items()
    said = capsys.readouterr().err
    assert "checked.csv: 2 labels of rows with gaps not used: these are left out" in said
    assert "checked.csv: 1 row has several labels by the same reviewer, first row 20 (from" in said


BAD = {
    "unknown": ("customer,label\n00003,no\n3,yes\n", "customer 3 at row 1 (from 0) is that of no"),
    "empty": ("customer,label\n00003,no\n,yes\n", "column 'customer' is empty at row 1"),
    "neither": ("client,label\n00003,no\n", "the columns customer or row and label"),
    "row of another source": ("customer,row,label,source\n,3,yes,0123\n", "another source"),
    "row": ("customer,row,label\n00003,,no\n,x,no\n", "'x' at row 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_id_that_is_none_is_one_line(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    content, message = BAD[case]
    (tmp_path / "bad.csv").write_text(content)
    source = write(table, tmp_path / "pool.parquet")
    options = ["--label-column", "sick", "--id-column", "customer", "--workers", "0", "-q"]
    options += ["--run", str(tmp_path / "run"), "--corrections", str(tmp_path / "bad.csv")]
    assert main(["train", str(source), *options]) == 2
    said = capsys.readouterr().err
    assert message in said.replace("'3'", "3")
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_of_rows_that_share_an_id_the_number_says_which(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    """A line without one is refused, or with one of another source."""
    table.loc[77, "customer"] = IDS[5]
    source, checked = write(table, tmp_path / "pool.parquet"), tmp_path / "checked.csv"
    labels = pd.DataFrame({"customer": [IDS[9], IDS[5]], "label": ["no", "yes"]})
    options = {**OPTIONS, "corrections": str(write(labels, checked))}
    with pytest.raises(InputError, match=r"'00015' at row 1 .* several rows.* in a column row"):
        fit(source, tmp_path / "run", **options)
    write(labels.assign(row=[9, 77]), checked)
    assert fit(source, tmp_path / "run", **options)["corrections"]["n_rows"] == 2
    verdicts = pq.read_table(tmp_path / "run/label_issues.parquet").to_pandas()
    assert verdicts.label_quality[[9, 77]].tolist() == [1, 1]
    assert verdicts.label_quality[5] < 1
    review = ["review", "--run", str(tmp_path / "run"), "-q"]
    assert main([*review, "--import-from", str(checked)]) == 0
    assert main([*review, "--export-to", str(checked)]) == 0
    fit(source, tmp_path / "again", **options)
    other = write(table.iloc[:500], tmp_path / "other.parquet")
    with pytest.raises(InputError, match="another source"):
        fit(other, tmp_path / "other", **options)


def test_a_review_s_answers_come_back_after_the_source_was_sorted_and_grew(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    """Exported as a workbook, edited there, taken in again, and used with the next export."""
    run, out = tmp_path / "run", tmp_path / "answers.xlsx"
    fit(write(table, tmp_path / "pool.csv"), run, **OPTIONS)
    (tmp_path / "said.csv").write_text("row,label,reviewer\n5,yes,ann\n7,no,ann\n9,no,bob\n")
    review = ["review", "--run", str(run), "-q"]
    assert main([*review, "--import-from", str(tmp_path / "said.csv")]) == 0
    assert main([*review, "--export-to", str(out)]) == 0
    book = openpyxl.load_workbook(out)
    cells = list(book.active.values)
    assert cells[0][:3] == ("customer", "row", "label")
    assert [line[:3] for line in cells[1:]] == [
        *((IDS[5], 5, "yes"), (IDS[7], 7, "no"), (IDS[9], 9, "no"))
    ]
    book.active["C3"], book.active["B3"] = "yes", None
    book.save(out)
    assert main([*review, "--import-from", str(out)]) == 0
    answers = AnswersFile.open(str(run / "review/answers.jsonl")).answers
    labels = {one.row: one.labels for one in answers.rows()}
    assert labels == {5: {"ann": "yes"}, 7: {"ann": "yes"}, 9: {"bob": "no"}}
    later = pd.concat([table.iloc[300:].assign(customer=lambda t: "x" + t.customer), table[::-1]])
    write(later, tmp_path / "later.csv")
    log = {**OPTIONS, "corrections": str(run / "review/answers.jsonl")}
    with pytest.raises(InputError, match="or a table of them with ids, which review --export-to"):
        fit(tmp_path / "later.csv", tmp_path / "later", **log)
    options = {**OPTIONS, "corrections": str(out)}
    fit(tmp_path / "later.csv", tmp_path / "later", **options)
    want = {IDS[5]: "yes", IDS[7]: "yes", IDS[9]: "no"}
    assert want.items() <= corrected(tmp_path / "later").items()


@pytest.mark.parametrize("name", ["checked.parquet", "checked.xlsx"])
def test_ids_that_were_rounded_are_those_of_no_row(
    table: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    """10 ** 16 + 3 is 10 ** 16 + 4 as a double, and 10 ** 16 in a sheet: ids of other rows."""
    source = write(table.assign(customer=10**16 + np.arange(N)), tmp_path / "pool.parquet")
    wrong = pd.DataFrame({"customer": [float(10**16 + 3), np.nan], "row": 9, "label": "yes"})
    options = {**OPTIONS, "corrections": str(write(wrong, tmp_path / name))}
    with pytest.raises(InputError, match=r"is that of no row|is double; ids are text"):
        fit(source, tmp_path / "run", **options)
    write(wrong.assign(customer=[str(10**16 + 3), None]), tmp_path / name)
    assert fit(source, tmp_path / "run", **options)["corrections"]["n_rows"] == 2
    assert corrected(tmp_path / "run").keys() >= {10**16 + 3, 10**16 + 9}


def test_imports_name_an_id_that_is_of_no_row(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit(write(table, tmp_path / "pool.csv"), run, **OPTIONS)
    (tmp_path / "said.csv").write_text("customer,label\n00003,yes\n00004,no\n")
    both = ["review", "--run", str(run), "--import-from", "a.csv", "--export-to", "b.csv"]
    assert main(both) == 2
    assert "--export-to and --import-from: give one of them" in capsys.readouterr().err
    assert main(["review", "--run", str(run), "--import-from", str(tmp_path / "said.csv")]) == 2
    said = capsys.readouterr().err
    assert "customer '00004' at row 1 (from 0) is that of no row of the run, which may" in said
    assert not list(AnswersFile.open(str(run / "review/answers.jsonl")).answers.rows())


@pytest.mark.parametrize("name", ["label", "row", "source"])
def test_a_column_of_ids_may_be_called_as_ours_are(
    table: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    source = write(table.rename(columns={"customer": name}), tmp_path / "pool.csv")
    fit(source, tmp_path / "run", **{**OPTIONS, "id_column": name})
    (tmp_path / "said.csv").write_text(f"{name}_id,label\n{IDS[7]},yes\n")
    review = ["review", "--run", str(tmp_path / "run"), "-q"]
    assert main([*review, "--import-from", str(tmp_path / "said.csv")]) == 0
    assert main([*review, "--export-to", str(tmp_path / "out.csv")]) == 0
    out = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert out.columns[:3].tolist() == [f"{name}_id", "row", "label"]
    assert out.iloc[0, :3].tolist() == [IDS[7], "7", "yes"]


def test_a_published_list_has_ids_and_is_taken_in_by_them(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fit(write(table, tmp_path / "pool.parquet"), run, **OPTIONS, publish_review=20)
    published = pd.read_csv(run / "review/list.csv", dtype=str)
    assert published.customer.tolist() == [IDS[int(row)] for row in published.row]
    filled = published.assign(label=published.likely_label).drop(columns="row").iloc[::-1]
    write(filled, tmp_path / "filled.xlsx")
    review = ["review", "--run", str(run), "-q", "--import-from", str(tmp_path / "filled.xlsx")]
    assert main(review) == 0
    answers = AnswersFile.open(str(run / "review/answers.jsonl")).answers
    labels = {IDS[one.row]: one.label for one in answers.rows()}
    assert labels == dict(zip(filled.customer, filled.label, strict=True))


def test_a_class_called_na_is_an_answer(table: pd.DataFrame, tmp_path: Path) -> None:
    table["sick"] = table["sick"].map({"yes": "NA", "no": "EU"})
    source, run = write(table, tmp_path / "pool.parquet"), tmp_path / "run"
    fit(source, run, **OPTIONS)
    said = tmp_path / "said.csv"
    said.write_text(f"customer,label\n{IDS[7]},NA\n{IDS[8]},EU\n{IDS[9]},\n")
    review = ["review", "--run", str(run), "-q"]
    assert main([*review, "--import-from", str(said)]) == 0
    assert main([*review, "--export-to", str(tmp_path / "out.csv")]) == 0
    for file in (said, tmp_path / "out.csv"):
        made = tmp_path / file.stem
        fit(source, made, **OPTIONS, corrections=str(file))
        assert corrected(made) == {IDS[7]: "NA", IDS[8]: "EU"}


def test_a_table_of_answers_as_spreadsheets_write_it_is_told(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    source = write(table, tmp_path / "pool.csv")
    for encoding in ("utf-16", "cp1252"):
        (tmp_path / "said.csv").write_bytes(f"customer,label\n{IDS[7]},\xfcber\n".encode(encoding))
        with pytest.raises(InputError, match=r"[:;] save it as UTF-8, or as .xlsx$"):
            fit(source, tmp_path / "run", **OPTIONS, corrections=str(tmp_path / "said.csv"))
    (tmp_path / "said.csv").write_text(f"customer,label,a;b;c;d\n{IDS[7]},yes,1,2\n")
    with pytest.raises(InputError, match=r"separated by ';': save it with commas, or as .xlsx"):
        fit(source, tmp_path / "run", **OPTIONS, corrections=str(tmp_path / "said.csv"))
    for sep, more in ((";", "sure; yes, or no"), ("\t", "why")):
        lines = f'customer{sep}label{sep}note\n{IDS[7]}{sep}yes{sep}"{more}"\n'
        (tmp_path / "said.csv").write_text(lines)
        run = tmp_path / f"run {ord(sep)}"
        fit(source, run, **OPTIONS, corrections=str(tmp_path / "said.csv"))
        assert corrected(run) == {IDS[7]: "yes"}
