"""`--parse`: a table as a spreadsheet exports it, from the look to scored rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.cli import main
from storage import open_run

N = 300
QUIET = ("--workers", "0", "-q")
PARSE = ("price=thousands", "rate*=percent", "day=datetime", "paid=%d.%m.%Y", "member=boolean")
OPTIONS = tuple(word for entry in PARSE for word in ("--parse", entry))
NAMES = ["price", "rate_a", "day", "paid", "member"]


def numbers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "price": np.round(rng.uniform(500, 5000, n) + 40_000 * y, 2),
            "rate_a": rng.integers(0, 999, n) / 10,
            "day": rng.integers(18_000, 20_000, n),
            "paid": rng.integers(18_000, 20_000, n),
            "member": rng.integers(0, 2, n),
            "fraud": np.where(y ^ (rng.random(n) < 0.1), "yes", "no"),
        }
    )


def written(table: pd.DataFrame) -> pd.DataFrame:
    """The same as people write it."""
    days = {name: pd.to_datetime(table[name], unit="D") for name in ("day", "paid")}
    return table.assign(
        price=[f"{value:,.2f}" for value in table["price"]],
        rate_a=[f"{value} %" for value in table["rate_a"]],
        day=days["day"].dt.strftime("%Y-%m-%d"),
        paid=days["paid"].dt.strftime("%d.%m.%Y"),
        member=np.where(table["member"] == 1, "Yes", "No"),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parse")
    written(numbers(N, 0)).to_csv(folder / "sales.csv", index=False)
    run = ("--label-column", "fraud", "--run", str(folder / "run"), "--k", "10")
    assert main(["train", str(folder / "sales.csv"), *run, *OPTIONS, *QUIET]) == 0
    return folder


def test_text_becomes_numbers_and_is_kept_with_the_run(made: Path) -> None:
    expected = numbers(N, 0)[NAMES].to_numpy(np.float64)
    expected[:, 1] /= 100
    assert np.array_equal(open_run(str(made / "run"))["pool"]["x"].values, expected.astype("f4"))
    config = json.loads((made / "run" / "run.json").read_text())
    assert config["parameters"]["parse"] == list(PARSE)
    assert config["coding"]["parse"]["rate*"] == "percent"


def test_scored_tables_are_parsed_alike(made: Path, tmp_path: Path) -> None:
    new = written(numbers(40, 1)).drop(columns="fraud")
    new.to_csv(tmp_path / "new.csv", index=False)
    stored = new.assign(day=pd.to_datetime(new["day"]), member=new["member"] == "Yes")
    stored.to_parquet(tmp_path / "new.parquet")
    scores = []
    for kind in ("csv", "parquet"):
        out = tmp_path / f"scores-{kind}.parquet"
        args = ["--run", str(made / "run"), "--out", str(out), *QUIET]
        assert main(["score", str(tmp_path / f"new.{kind}"), *args]) == 0
        scores.append(pd.read_parquet(out))
    assert scores[0].equals(scores[1])


def test_a_scored_value_that_is_none_is_named(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = written(numbers(40, 1))
    new.loc[17, "price"] = "1,23"
    new.to_csv(tmp_path / "new.csv", index=False)
    out = ("--out", str(tmp_path / "s.parquet"))
    assert main(["score", str(tmp_path / "new.csv"), "--run", str(made / "run"), *out, *QUIET]) == 2
    said = capsys.readouterr().err
    assert "row 17 (from 0), column 'price': '1,23' is not to be read" in said
    assert said.endswith("correct it\n")  # a scoring has no --exclude


def test_a_look_suggests_what_to_give(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["check", str(made / "sales.csv"), "--label-column", "fraud"]
    assert main(check) == 0
    said = capsys.readouterr().out
    for name, kind in (
        *(("price", "thousands"), ("rate_a", "percent"), ("day", "datetime")),
        *(("paid", "%d.%m.%Y"), ("member", "boolean")),
    ):
        assert f"look: {name!r}: holds what can be read as numbers, such as" in said
        assert f"give --parse {name}={kind}" in said
    assert main([*check, *OPTIONS]) == 0
    assert "text" not in capsys.readouterr().out
    assert main([*check, "--parse", "member=percent"]) == 0
    assert "'member': 'No' is not to be read as --parse says" in capsys.readouterr().out


def test_a_name_with_a_star_is_parsed_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = numbers(N, 0)[["price", "fraud"]]
    percents = [f"{n} %" for n in range(N)]
    table.assign(**{"p*": percents}).to_csv(tmp_path / "sales.csv", index=False)
    check = ["check", str(tmp_path / "sales.csv"), "--label-column", "fraud"]
    assert main(check) == 0
    assert "give --parse 'p[*]=percent'" in capsys.readouterr().out
    assert main([*check, "--parse", "p[*]=percent"]) == 0
    assert "read as" not in capsys.readouterr().out


def test_without_the_option_the_refusal_names_it(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", str(made / "sales.csv"), "--label-column", "fraud"]
    assert main([*train, "--run", str(tmp_path / "run"), *QUIET]) == 2
    assert "give --parse price=thousands, or" in capsys.readouterr().err


def test_what_may_be_yes_may_be_a_category(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first row says y, and others x."""
    table = numbers(40, 0)[["price", "fraud"]].assign(site=["y", "x"] * 20)
    table.to_csv(tmp_path / "t.csv", index=False)
    run = ("--label-column", "fraud", "--run", str(tmp_path / "run"))
    assert main(["train", str(tmp_path / "t.csv"), *run, *QUIET]) == 2
    told = capsys.readouterr().err
    assert "if these are categories, give --encode one-hot, else give --parse site=bool" in told


def test_a_parsed_column_may_be_left_out_by_the_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(numbers(N, 0)).assign(member="Yes").to_csv(tmp_path / "sales.csv", index=False)
    train = ["train", str(tmp_path / "sales.csv"), "--label-column", "fraud", "--k", "10"]
    assert main([*train, "--run", str(tmp_path / "run"), *OPTIONS, *QUIET]) == 0
    assert "left out: 'member' is constant" in capsys.readouterr().out


@pytest.mark.parametrize("entry", ["price", "=percent", "price=money"])
def test_an_unknown_kind_is_refused(
    made: Path, tmp_path: Path, entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", str(made / "sales.csv"), "--label-column", "fraud", "--parse", entry]
    assert main([*train, "--run", str(tmp_path / "run"), *QUIET]) == 2
    assert f"--parse {entry}: must be COLUMN=KIND" in capsys.readouterr().err
