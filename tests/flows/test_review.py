"""The review: its list, its page in a real browser, and answers that nothing loses."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uvicorn
from browser import chromium
from matplotlib.image import imread
from processes import running, wait_for
from runs import fit
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from flows.cli import main
from flows.engine.progress import Reporter
from flows.options.params import ReviewParams
from flows.report.rows import Features, Shown
from flows.review import desk_of, keep, open_answers, review_text, run_review, take
from flows.review.desk import Filters
from flows.review.prepare import prepared
from flows.review.server import application, listening
from flows.review.source import Exhibit, SourceTable
from flows.scorings.scored import Trained
from flows.steps.graph.lookup import places
from flows.train import run_train
from pipeline.decision import review
from storage import InputError
from storage.answers import AnswersFile
from storage.arrays.groups import read_group

N = 900
BUDGET = 30
TOKEN = "the-token"


@dataclass
class Made:
    """A training and the truth about its labels."""

    folder: Path
    run: Path
    clean: np.ndarray
    given: np.ndarray


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("review")
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 16)) + 1.5 * clean[:, None]
    given = clean ^ (rng.random(N) < np.where(clean == 1, 0.1, 0.3))
    names = np.array(["no", "yes <b>"])
    np.savez(folder / "pool.npz", X=x.astype(np.float32), y=names[given])
    text = [f"text of {i} <i>" for i in range(N)]
    pq.write_table(pa.table({"text": text}), folder / "texts.parquet")
    fit(folder / "pool.npz", folder / "run")
    return Made(folder, folder / "run", clean, given)


def listed(made: Made, **more: Any) -> tuple[Trained, dict[str, np.ndarray]]:
    trained = Trained.of(str(made.run))
    params = ReviewParams.of(str(made.run), workers=0, quiet=True, **{"budget": BUDGET, **more})
    run = prepared(trained, params, Reporter(quiet=True))
    return trained, read_group(run.store, "review")


def test_the_list_is_that_of_all_rows_at_once(made: Made) -> None:
    """Against the graph and the verdicts read whole."""
    trained, queue = listed(made)
    report = trained.report
    verdicts = read_group(trained.run.store, "labels")
    graph = [read_group(trained.run.store, f"graph/{b:05d}") for b in range(report.n_blocks)]
    rule, k = report.decision_rule, report.k
    moved = np.zeros(N, np.int64)
    for block in graph:
        for line, labels in zip(block["neighbor"], block["neighbor_label"], strict=True):
            ones = int((labels[:k] == 1).sum())
            now = rule.predict(np.array([ones / k]))[0]
            for row, label in zip(line[:k], labels[:k], strict=True):
                after = rule.predict(np.array([(ones + (1 if label == 0 else -1)) / k]))[0]
                moved[row] += after != now
    row = queue["row"]
    assert (queue["moved"] == moved[row]).all()
    value = review.usefulness(verdicts["label_quality"], moved)
    issue = verdicts["is_label_issue"]
    assert (queue["is_label_issue"] == issue[row]).all()
    ranked = [
        r
        for r, s, d in zip(row, queue["suspect_draw"], queue["row_draw"], strict=True)
        if s < 0 and d < 0
    ]
    assert (np.diff(value[ranked]) <= 1e-12).all()
    assert issue[ranked].all()
    assert len(set(row.tolist())) == len(row)
    for draw, among in (("suspect_draw", np.flatnonzero(issue)), ("row_draw", np.arange(N))):
        drawn = row[queue[draw] >= 0][np.argsort(queue[draw][queue[draw] >= 0])]
        stream = {"suspect_draw": "suspects", "row_draw": "rows"}[draw]
        want = among[review.first(among, None, len(drawn), 0, stream)]
        assert drawn.tolist() == want.tolist()
    x = np.load(made.folder / "pool.npz")["X"]
    for at in (0, 7):
        distance = np.linalg.norm(x - x[row[at]], axis=1)
        distance[row[at]] = np.inf
        assert set(queue["neighbor"][at]) == set(np.argsort(distance)[: len(queue["neighbor"][at])])


def test_the_surest_come_first_where_they_are_wanted(made: Made) -> None:
    """Whatever their correction changes; what is drawn at random stays what it is."""
    trained, queue = listed(made, order="surest")
    labels = read_group(trained.run.store, "labels")
    _, informative = listed(made)
    quality, other = (
        one["label_quality"][(one["suspect_draw"] < 0) & (one["row_draw"] < 0)]
        for one in (queue, informative)
    )
    assert (np.diff(quality) >= 0).all()
    assert (np.diff(other) < 0).any()
    assert quality[0] == labels["label_quality"][labels["is_label_issue"]].min()
    for draw in ("suspect_draw", "row_draw"):
        drawn = [
            one["row"][one[draw] >= 0][np.argsort(one[draw][one[draw] >= 0])].tolist()
            for one in (queue, informative)
        ]
        assert drawn[0] == drawn[1]


@dataclass
class Served:
    """A page under review in this process. It shows no certificate: to load those that it could be
    compared with takes 25 ms a request."""

    url: str
    log: Path
    made: Made

    def answers(self) -> AnswersFile:
        return AnswersFile.open(str(self.log))

    def get(self, path: str, **query: Any) -> Any:
        reply = httpx.get(self.url + path, params=query, verify=False, timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, **body: Any) -> httpx.Response:
        said = {"reviewer": "ann", **body}
        return httpx.post(self.url + path, json=said, verify=False, timeout=60)

    def answer(self, row: int, label: int | None, **more: Any) -> Any:
        reply = self.post("api/answer", id=uuid.uuid4().hex, row=row, label=label, **more)
        assert reply.status_code == 200, reply.text
        return reply.json()


@pytest.fixture
def page(made: Made, tmp_path: Path) -> Iterator[Served]:
    """A page with answers of its own, which shows pictures and texts."""
    shown = Shown(str(made.folder / "texts.parquet"), None, N, None)
    with served(made, tmp_path / "answers.jsonl", (4, 4), shown) as here:
        yield here


@pytest.fixture
def page_of_table(made: Made, tmp_path: Path) -> Iterator[Served]:
    """One that shows rows as they stand in a file."""
    words = {"note": ["a long <i>note</i>, as people write them " * 50] * N, "gap": [None] * N}
    of_all = {f"x{j}": [f"{at}.{j}" for at in range(N)] for j in range(12)}
    same = {"region": ["East"] * N}
    table = pd.DataFrame({"name": [f"N{at}" for at in range(N)], **of_all, **words, **same})
    table.to_csv(tmp_path / "table.csv", index=False)
    shown = Shown(str(tmp_path / "table.csv"), None, N, None)
    with served(made, tmp_path / "answers.jsonl", None, shown) as here:
        yield here


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A training on a table with columns that are no features."""
    folder = tmp_path_factory.mktemp("exported")
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(240, 2)).round(3), columns=["a", "b"])
    table.insert(0, "id", [f"C{n}" for n in range(240)])
    clean = (table.a > 0).to_numpy(int)
    given = clean ^ (rng.random(240) < 0.1)
    table = table.assign(note="called, twice", day="2024-05-06", sick=given)
    table.loc[3, "note"] = None
    table.to_csv(folder / "export.csv", index=False)
    how = {"label_column": "sick", "id_column": "id", "exclude": ["note", "day"]}
    fit(folder / "export.csv", folder / "run", **how)
    return Made(folder, folder / "run", clean, given)


@contextmanager
def away(path: Path) -> Iterator[None]:
    """A file that is moved, and comes back as it was."""
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    yield
    elsewhere.replace(path)


def answers_on(trained: Trained, log: Path | str | None = None) -> AnswersFile:
    """The answers on a training's rows."""
    report = trained.report
    path = None if log is None else str(log)
    return open_answers(trained.run, report.label_values, report.n_source_rows, path)


@contextmanager
def served(
    made: Made,
    log: Path,
    shape: tuple[int, int] | None,
    shown: Shown | None,
    source: SourceTable | None = None,
) -> Iterator[Served]:
    trained = Trained.of(str(made.run))
    params = ReviewParams.of(str(made.run), workers=0, quiet=True, budget=BUDGET)
    run = prepared(trained, params, Reporter(quiet=True))
    desk = desk_of(trained, run, answers_on(trained, log), BUDGET)
    if shown is not None:
        shown.read(np.arange(N))
    features, n = Features(trained.run, shape=shape), trained.report.n_features
    exhibit = Exhibit(features, [f"x{i}" for i in range(n)], shown, source)
    about = {
        "run": "r<u>n\udcff",
        "label_name": "y",
        "id_name": "name",
        "reviewer": "ann",
        "answers": str(log),
    }
    token = TOKEN + uuid.uuid4().hex  # which a tab that another test has left open does not know
    listener = listening(0, about["run"])
    server = uvicorn.Server(
        uvicorn.Config(application(desk, exhibit, about, token), log_level="error")
    )
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = listener.getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}/{token}/", log, made)
    finally:
        server.should_exit = True
        thread.join()


def test_what_no_name_of_a_file_can_hold_is_shown_as_text(tmp_path: Path) -> None:
    texts = ["x" * 300 + ".png", "a\0.png", f"{'../' * 5000}a.png", "there.png"]
    (tmp_path / "there.png").write_bytes(b"")
    pq.write_table(pa.table({"text": texts}), tmp_path / "texts.parquet")
    shown = Shown(str(tmp_path / "texts.parquet"), None, 4, str(tmp_path))
    shown.read(np.arange(1, 3))
    assert [*map(shown.of, range(4))] == [{}, {"text": texts[1]}, {"text": texts[2]}, {}]
    shown.read(np.array([0, 3]))  # as rows are asked for: what a page holds is bounded by these
    assert [*map(shown.of, range(3))] == [{"text": text} for text in texts[:3]]
    assert shown.of(3) == {"image": "image/3"}


def test_times_that_python_has_not_are_shown(tmp_path: Path) -> None:
    far, days = pa.array([253402300800, 0], pa.timestamp("s")), pa.array([1, 2**62])
    table = {"far": far, "long": days.cast(pa.duration("s")), "x": [0.5, None]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    shown = Shown(str(tmp_path / "t.parquet"), None, 2, None)
    shown.read(np.arange(2))
    assert shown.of(0) == {"cells": ["10000-01-01 00:00:00.000", "1", "0.5"]}
    assert shown.of(1) == {"cells": ["1970-01-01 00:00:00.000", str(2**62), None]}
    nowhere = pa.array([0, 1], pa.timestamp("s", "No/Where"))
    pq.write_table(pa.table({"far": nowhere, "x": [1, 2]}), tmp_path / "n.parquet")
    shown = Shown(str(tmp_path / "n.parquet"), None, 2, None)
    with pytest.raises(InputError, match="has values that cannot be shown"):
        shown.read(np.arange(2))


def test_rows_stand_as_in_the_source_where_it_is_what_it_was(exported: Made) -> None:
    source, trained = exported.folder / "export.csv", Trained.of(str(exported.run))
    as_text = pd.read_csv(source).astype(str)

    def look() -> SourceTable:
        table = SourceTable.of(trained, np.array([3, 7]))
        assert table is not None
        return table

    table = look()
    assert table.trouble == ""
    assert table.shown is not None
    assert table.shown.columns == ("id", "a", "b", "note", "day", "sick")
    assert table.shown.of(7) == {"cells": as_text.loc[7].tolist()}
    assert table.shown.of(3)["cells"][3] is None
    assert table.shown.of(8) == {}
    with away(source):
        assert look().shown is None
        assert look().trouble.endswith(
            "no such file or folder; check the path. Features are shown until it is back; "
            "--show FILE takes another table."
        )
    with away(source):
        source.write_text("id,a,b,note,day,sick\nC0,1,2,,,1\n")
        assert look().shown is None
        assert "was trained on: export.csv has 32 bytes, it had" in look().trouble
    assert look().trouble == ""


def test_a_table_that_goes_and_comes_back_is_told(
    browser: Chrome, exported: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("flows.review.source.LOOK_SECONDS", 0.0)
    source, trained = exported.folder / "export.csv", Trained.of(str(exported.run))

    def names() -> list[str]:
        return [
            one.text.split("\n")[0] for one in browser.find_elements(By.CSS_SELECTOR, "tbody th")
        ]

    def told(text: str) -> bool:
        line = browser.find_element(By.ID, "source")
        return text in line.text and line.is_displayed() == bool(text)

    columns = ["id", "a", "b", "note", "day", "sick"]
    with away(source):
        table = SourceTable.of(trained, np.arange(240))
        where = served(exported, tmp_path / "answers.jsonl", None, None, table)
    with where as page:
        with away(source):
            visit(browser, page)
            until(browser, lambda: told("Features are shown until it is back"))
            assert names() == ["x0", "x1"]
            first = row(browser)
        until(browser, lambda: names() == columns)
        assert row(browser) == first
        until(browser, lambda: told(""))
        with away(source):
            source.write_text("id,a,b,note,day,sick\nC0,1,2,,,1\n")
            until(browser, lambda: told("Rows are shown as they were read from it before."))
            assert names() == columns
            press(browser, "k")
            until(browser, lambda: first in page.answers().answers)
            assert names() == columns
        until(browser, lambda: told(""))
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_rows_are_the_source_s_where_some_were_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(240, 3)).round(4)
    given = np.where((x[:, 0] > 0) ^ (rng.random(240) < 0.2), "yes", "no").astype(object)
    given[::7] = None
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(sick=given)
    table.to_csv(tmp_path / "pool.csv", index=False)
    how = {"label_column": "sick", "workers": 0, "quiet": True, "builder": "exact"}
    run_train(str(tmp_path / "pool.csv"), str(tmp_path / "run"), unlabeled="predict", **how)
    trained = Trained.of(str(tmp_path / "run"))
    params = ReviewParams.of(str(tmp_path / "run"), workers=0, quiet=True, budget=20)
    run = prepared(trained, params, Reporter(quiet=True))
    file = answers_on(trained)
    desk = desk_of(trained, run, file, 20)
    row, neighbor = desk.queue["row"], desk.queue["neighbor"]
    labels = np.array(trained.report.label_values, object)
    assert (given[row] == labels[desk.queue["given_label"]]).all()
    assert (given[neighbor[:, 0]] == labels[desk.queue["neighbor_label"][:, 0]]).all()
    shown = Features(trained.run, places(trained.pool(), row)).of(row.tolist())
    assert np.allclose([shown[one]["features"] for one in row.tolist()], x[row], atol=1e-4)
    desk.answer("one", int(row[0]), 0, "ann", False)
    again = run_train(
        str(tmp_path / "pool.csv"),
        str(tmp_path / "checked"),
        unlabeled="predict",
        corrections=str(file.path),
        **how,
    )
    assert again["corrections"]["n_rows"] == 1
    (tmp_path / "elsewhere.csv").write_text("row,label\n7,no\n8,yes\n239,no\n")
    out = tmp_path / "answers.parquet"
    for options in (["--import-from", str(tmp_path / "elsewhere.csv")], ["--export-to", str(out)]):
        assert main(["review", "--run", str(tmp_path / "run"), "-q", *options]) == 0
    exported = pd.read_parquet(out).set_index("row")
    assert pd.isna(exported.given_label[7])  # of a row that had none
    for one in (8, 239, int(row[0])):
        assert exported.given_label[one] == given[one]


def test_only_who_has_the_address_is_let_in(page: Served) -> None:
    host = page.url.split(TOKEN)[0]
    for path in ("", "api/next?tab=t", f"{TOKEN}x/", "docs", "openapi.json"):
        reply = httpx.get(host + path)
        assert reply.status_code == 403
        assert reply.text.count("\n") == 1
    assert httpx.get(page.url, headers={"Host": "evil.example"}).status_code == 403
    assert httpx.get(page.url, headers={"Origin": "http://evil.example"}).status_code == 403
    reply = httpx.get(page.url)
    assert reply.status_code == 200
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "r<u>n" not in reply.text
    assert httpx.get(page.url + "desk.py.js").status_code == 404


def test_bad_answers_are_refused_and_nothing_is_lost(page: Served) -> None:
    (card,) = page.get("api/next", tab="t")["cards"]
    page.answer(card["row"], 1)
    before = page.log.read_bytes()
    bad = [
        ({"row": 10**9, "label": 1}, "not on this review's list"),
        ({"row": card["row"], "label": 2}, "there are 2 labels"),
        ({"row": card["row"], "label": -1}, "there are 2 labels"),
        ({"row": "x", "label": 1}, "row"),
        ({"row": card["row"], "label": 1, "reviewer": ""}, "reviewer"),
        ({"row": card["row"], "label": 1, "more": 1}, "more"),
    ]
    for body, message in bad:
        reply = page.post("api/answer", id=uuid.uuid4().hex, **body)
        assert reply.status_code == 422
        assert message in reply.json()["error"]
    assert page.log.read_bytes() == before


def test_tabs_and_people_are_asked_different_rows(page: Served) -> None:
    first = [card["row"] for card in page.get("api/next", tab="one", n=5)["cards"]]
    second = [card["row"] for card in page.get("api/next", tab="two", n=5)["cards"]]
    assert not set(first) & set(second)
    again = [card["row"] for card in page.get("api/next", tab="one", n=5)["cards"]]
    assert again == first
    page.answer(first[0], 0)
    page.answer(first[0], 1, reviewer="bob")
    state = page.get("api/state", reviewer="ann")
    said = {"labels": {"ann": "no", "bob": "yes <b>"}}
    assert state["conflicts"] == [{"row": first[0], **said, "listed": True}]
    assert "Reviewers disagree on 1 row." in state["measured"]["sentences"]
    assert first[0] not in [c["row"] for c in page.get("api/next", tab="one", n=48)["cards"]]


def test_what_a_closed_tab_was_asked_is_asked_again(page: Served) -> None:
    shown = page.get("api/next", tab="one", n=9)["cards"]
    assert any(card["random"] for card in shown)
    assert page.get("api/next", tab="two")["cards"][0]["row"] != shown[0]["row"]
    page.post("api/leave?tab=one")
    assert page.get("api/next", tab="three")["cards"][0]["row"] == shown[0]["row"]


def test_random_rows_answered_beside_a_lost_tab_give_a_sentence(page: Served) -> None:
    page.get("api/next", tab="lost", n=12)  # killed: it says nothing, and has draws
    while cards := page.get("api/next", tab="t")["cards"]:
        page.answer(cards[0]["row"], int(page.made.clean[cards[0]["row"]]))
    state = page.get("api/state")
    assert state["answered"] == BUDGET
    assert "rows drawn at random" in " ".join(state["measured"]["sentences"])
    desk = page.answers().answers
    drawn = [asked for answer in desk.answers.values() for asked in answer.rows]
    counted = state["measured"]["rows"]["n"], state["measured"]["suspects"]["n"]
    assert counted == tuple(sum(a.drawn == kind for a in drawn) for kind in ("rows", "suspects"))


def test_the_same_answer_sent_twice_counts_once(page: Served) -> None:
    (card,) = page.get("api/next", tab="t")["cards"]
    body = {"id": uuid.uuid4().hex, "row": card["row"], "label": 1}
    assert page.post("api/answer", **body).json()["kept"]
    assert not page.post("api/answer", **body).json()["kept"]
    assert len(page.answers().answers.answers) == 1


def test_a_body_that_no_page_sends_is_refused_unread(page: Served) -> None:
    def endless() -> Iterator[bytes]:
        yield from [b" " * 1000] * 1000

    for body in (b" " * 200_000, endless()):
        assert httpx.post(page.url + "api/answer", content=body).status_code == 413
    assert page.get("api/state")["answered"] == 0


def test_a_group_is_answered_and_undone_as_one(page: Served) -> None:
    cards = page.get("api/next", tab="t", n=48)["cards"]
    card = next(card for card in cards if len(card["alike"]) >= 2)
    members = {card["row"], *(one["row"] for one in card["alike"])}
    name = uuid.uuid4().hex
    body = {"row": card["row"], "label": card["likely"], "group": True}
    assert page.post("api/answer", id=name, **body).status_code == 200
    answers = page.answers().answers
    assert {said.row for said in answers.rows()} == members
    assert page.get("api/state")["answered"] == 1
    undone = page.post("api/undo", id=name).json()
    assert undone["cards"][0]["row"] == card["row"]
    assert not list(page.answers().answers.rows())
    assert page.post("api/undo", id=name).json()["cards"] == []


def test_filters_choose_pairs_certainty_and_groups(page: Served) -> None:
    found = page.get("api/next", tab="t", n=48, given=1, likely=0)["cards"]
    assert found
    assert {(card["given"], card["likely"]) for card in found} == {(1, 0)}
    assert all(c["wrong"] <= 0.6 for c in page.get("api/next", tab="t", n=48, high=0.6)["cards"])
    card = next(c for c in page.get("api/next", tab="t", n=48)["cards"] if c["alike"])
    rows = {c["row"] for c in page.get("api/next", tab="t", n=48, group=card["group"])["cards"]}
    assert rows == {card["row"], *(one["row"] for one in card["alike"])}


def test_a_whole_review_measures_what_is_true(
    page: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, n = page.made, 0
    while cards := page.get("api/next", tab="t")["cards"]:
        (card,) = cards
        assert card["content"]["text"] == f"text of {card['row']} <i>"
        page.answer(card["row"], int(made.clean[card["row"]]))
        n += 1
    assert n == BUDGET
    measured = page.get("api/state")["measured"]
    share = float((made.clean != made.given).mean())
    low, high = measured["rows"]["interval"]
    assert low < share < high
    assert min(measured["suspects"]["n"], measured["rows"]["n"]) >= BUDGET * 0.2 / 2
    assert abs(measured["expected"] - share) < 0.06
    assert measured["n_wrong"] > 0.7 * measured["n_checked"] > 15
    out = tmp_path / "out.csv"
    log = ["--run", str(made.run), "--answers", str(page.log)]
    assert main(["review", *log, "--export-to", str(out)]) == 0
    again = str(tmp_path / "again.jsonl")
    assert main(["review", *log[:3], again, "--import-from", str(out), "--json"]) == 0
    assert len(list(AnswersFile.open(again).answers.rows())) == BUDGET
    newer = pd.read_csv(out)
    newer.loc[3, "label"] = next(one for one in newer.label if one != newer.label[3])
    newer.to_csv(tmp_path / "newer.csv", index=False)
    for table in (tmp_path / "newer.csv", out):  # which sets back what the other says
        capsys.readouterr()
        assert main(["review", *log[:3], again, "--import-from", str(table)]) == 0
        printed = capsys.readouterr().out
        assert f"1 of them in place of another by the same person (row {newer.row[3]})" in printed
    report = fit(made.folder / "pool.npz", tmp_path / "next", corrections=str(page.log))
    assert report["corrections"]["n_rows"] == BUDGET
    trained = Trained.of(str(tmp_path / "next"))
    params = ReviewParams.of(str(tmp_path / "next"), workers=0, quiet=True, budget=100)
    run = prepared(trained, params, Reporter(quiet=True))
    certain = {said.row for said in page.answers().answers.rows()}
    assert not certain & set(read_group(run.store, "review")["row"].tolist())


def test_three_classes_from_the_list_to_the_next_training(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 3)) + 4.0 * np.eye(3)[clean]
    given = np.where(rng.random(600) < 0.2, (clean + 1) % 3, clean)
    names = np.array(["cat", "dog", "eel"])
    np.savez(tmp_path / "pool.npz", X=x.astype(np.float32), y=names[given])
    fit(tmp_path / "pool.npz", tmp_path / "run")
    trained = Trained.of(str(tmp_path / "run"))
    params = ReviewParams.of(str(tmp_path / "run"), workers=0, quiet=True, budget=40)
    run = prepared(trained, params, Reporter(quiet=True))
    desk = desk_of(trained, run, answers_on(trained), 40)
    right = 0
    for n in range(40):
        (card,) = desk.next(1, "t", Filters())
        row = card["row"]
        assert names[given[row]] == desk.labels[card["given"]]
        assert sorted(card["choices"]) == [0, 1, 2]
        right += card["likely"] == clean[row]
        assert desk.answer(f"answer-{n}", row, int(clean[row]), "ann", False)
    assert right > 30
    assert abs(desk.expected - (given != clean).mean()) < 0.1
    found = desk.measured()
    assert found.n_wrong > 0.8 * found.n_checked > 20
    log = str(tmp_path / "run/review/answers.jsonl")
    fit(tmp_path / "pool.npz", tmp_path / "next", corrections=log)
    verdicts = pq.read_table(tmp_path / "next/label_issues.parquet").to_pandas()
    rows = [said.row for said in AnswersFile.open(log).answers.rows()]
    assert (verdicts.given_label[rows] == names[clean[rows]]).all()
    assert not verdicts.is_label_issue[rows].any()


def test_answers_of_another_process_count_at_the_end(made: Made, tmp_path: Path) -> None:
    trained = Trained.of(str(made.run))
    params = ReviewParams.of(str(made.run), workers=0, quiet=True, budget=BUDGET)
    run, log = prepared(trained, params, Reporter(quiet=True)), tmp_path / "answers.jsonl"
    first, second = (desk_of(trained, run, answers_on(trained, log), BUDGET) for _ in "ab")
    second.answer("answer-1", int(second.queue["row"][0]), 1, "bob", False)
    assert first.measured().n_labels == 1


def test_a_review_without_answers_advises_no_training() -> None:
    measured = {"sentences": [], "n_labels": 0}
    assert review_text({"measured": measured, "answers": "a.jsonl"}) == "0 labels known\n"
    measured["n_labels"] = 2
    told = review_text({"measured": measured, "answers": "a.jsonl"})
    assert told == "2 labels known; train with them: knnoise train ... --corrections a.jsonl\n"


EXPORTS = Path(__file__).parent / "label_studio"
"""Files that Label Studio 1.23 wrote: two people, one task skipped, one without annotations; and of
tasks with pictures, one person, one skipped."""
EXPORTED = "dda473d77782a2694967532368d98b16"
"""The source they are of, but for the pictures."""
YES = "yes <b>"
SAID = {
    224: {"1": YES, "3": YES},
    25: {"1": YES, "3": "no"},
    120: {"1": None, "3": YES},
    298: {"1": YES},
    285: {"1": YES},
}
OF_IMAGES = {40: {"1": YES}, 71: {"1": None}, 727: {"1": YES}, 829: {"1": "no"}}


def test_questions_are_tasks_of_label_studio(made: Made, tmp_path: Path) -> None:
    out, texts = tmp_path / "tasks.json", str(made.folder / "texts.parquet")
    options = ["--budget", str(BUDGET), "--show", texts, "--workers", "0", "-q"]
    log = ["--answers", str(tmp_path / "a.jsonl"), "--export-to", str(out)]
    assert main(["review", "--run", str(made.run), *log, *options]) == 0
    config = ElementTree.parse(tmp_path / "tasks.xml").getroot()
    assert [one.get("value") for one in config.iter("Choice")] == ["no", YES]
    fields = [one.get("value", "")[1:] for one in config if one.tag != "Choices"]
    assert fields == ["question", "text", "columns", "nearest"]
    assert config.find("Choices").get("toName") in {one.get("name") for one in config}
    tasks = json.loads(out.read_text())
    _, queue = listed(made)
    assert [task["data"]["row"] for task in tasks] == queue["row"][:BUDGET].tolist()
    x = np.load(made.folder / "pool.npz")["X"]
    for task in tasks:
        data, (prediction,) = task["data"], task["predictions"]
        assert set(fields) < set(data)
        assert data["text"] == f"text of {data['row']} <i>"
        assert data["given"] == ["no", YES][made.given[data["row"]]]
        assert list(data["columns"].values()) == pytest.approx(x[data["row"]], rel=1e-4)
        assert prediction["result"][0]["value"]["choices"][0] in ("no", YES)


def test_gray_images_are_pictures_in_tasks_and_answers_on_them_come_back(
    made: Made, tmp_path: Path
) -> None:
    out, log = tmp_path / "tasks.json", str(tmp_path / "a.jsonl")
    options = ["--budget", "5", "--image-shape", "2x8", "--workers", "0", "-q", "--answers", log]
    assert main(["review", "--run", str(made.run), "--export-to", str(out), *options]) == 0
    config = ElementTree.parse(tmp_path / "tasks.xml").getroot()
    shown = [(one.tag, one.get("value")) for one in config if one.tag != "Choices"]
    assert shown == [("Text", "$question"), ("Image", "$image"), ("Table", "$nearest")]
    x = np.load(made.folder / "pool.npz")["X"]
    tasks = json.loads(out.read_text())
    assert len(tasks) == 5
    for task in tasks:
        kind, _, content = task["data"]["image"].partition(",")
        assert kind == "data:image/png;base64"
        gray = imread(BytesIO(b64decode(content)))
        pixels = x[task["data"]["row"]].reshape(2, 8)
        assert gray == pytest.approx((pixels - pixels.min()) / np.ptp(pixels), abs=1 / 255)
        assert "columns" not in task["data"]
        names = {result["to_name"] for result in task["predictions"][0]["result"]}
        assert names == {config.find("Choices").get("toName")} == {"question"}
    file = answers_on(Trained.of(str(made.run)), log)
    text = (EXPORTS / "export-images.json").read_text()
    for old, new in (("square", YES), ("bar", "no")):
        text = text.replace(f'"{old}"', f'"{new}"')
    (source,) = set(re.findall(r'"source":"(\w+)"', text))
    out.write_text(text.replace(source, file.answers.origin.source))
    assert take(file, str(out)) == (4, [])
    assert {one.row: one.labels for one in file.answers.rows()} == OF_IMAGES


@pytest.mark.parametrize("name", ["export.json", "export-min.json"])
def test_exports_of_label_studio_are_answers(made: Made, tmp_path: Path, name: str) -> None:
    log = str(tmp_path / "answers.jsonl")
    file = answers_on(Trained.of(str(made.run)), log)
    assert file.answers.origin is not None
    text = (EXPORTS / name).read_text().replace(EXPORTED, file.answers.origin.source)
    (tmp_path / name).write_text(text)
    want = {row: dict(said) for row, said in SAID.items()}
    if name == "export-min.json":  # which leaves out what was skipped
        del want[120]["1"]
    for new in (sum(map(len, want.values())), 0):
        assert take(file, str(tmp_path / name)) == (new, [])
        assert {one.row: one.labels for one in file.answers.rows()} == want
    assert [one.row for one in file.answers.rows() if one.conflict] == [25]


FOREIGN = {
    "source": ((EXPORTED, "another"), "task 1: is on rows of another source"),
    "choice": (('["no"]', '["maybe"]'), "task 2: choice 'maybe' is not one of"),
    "two": (('["no"]', '["no", "no"]'), "task 2: choice 'no', 'no' is not one of"),
    "row": (('"row":25', '"row":1' + "0" * 40), "task 2: is on rows of another source"),
    "type": (('"row":25', '"row":"25"'), "task 2: data.row"),
    "person": (('"completed_by":3', '"completed_by":[3]'), "task 1: annotations.1.completed_by"),
    "surrogate": (('["no"]', '["\\ud800"]'), "task 2"),
    "cut": (('"was_cancelled"', ""), "damaged"),
    "digits": (('"row":25', '"row":' + "1" * 5000), "damaged"),
    "deep": (('"row":25', '"row":' + "[" * 100_000), "damaged"),
    "list": (("[", '{"tasks": ['), "damaged"),
    "many": (("[", "[" + "[]," * (1 << 20)), "commas, colons and brackets; export fewer"),
    "name": (
        ('"completed_by":3', f'"completed_by":"{"x" * 5000}"'),
        "task 1: annotations.1.completed_by",
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_export_of_these_tasks_leaves_answers_alone(
    made: Made, tmp_path: Path, case: str
) -> None:
    file = answers_on(Trained.of(str(made.run)), tmp_path / "answers.jsonl")
    assert file.answers.origin is not None
    (old, new), message = FOREIGN[case]
    text = (EXPORTS / "export.json").read_text().replace(old, new, 1)
    (tmp_path / "e.json").write_text(text.replace(EXPORTED, file.answers.origin.source))
    before = file.path.read_bytes()
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        take(file, str(tmp_path / "e.json"))
    assert "\n" not in str(refused.value)
    assert file.path.read_bytes() == before


BAD = {
    "budget": (["--budget", "0"], "--budget 0: must be 1 or more"),
    "shape": (["--image-shape", "5x5"], "25 pixels, rows have 16 features"),
    "show": (["--show", "absent.csv"], "no such file"),
    "column": (["--show-column", "x"], "belong to a file"),
    "share": (["--random-share", "2"], "or less"),
    "import": (["--import-from", "absent.csv"], "no such file"),
    "export": (["--export-to", "out.txt"], "tables are written as .parquet, .csv"),
    "port": (["--port", "8080", "--export-to", "out.csv"], "--port is for the page: leave it out"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_one_line(
    made: Made, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, message = BAD[case]
    args = ["review", "--run", str(made.run), "--workers", "0", "-q", *options]
    assert main(args) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_log_that_takes_no_answers_is_refused_before_anybody_gives_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = answers_on(Trained.of(str(made.run)), tmp_path / "answers.jsonl").path
    monkeypatch.setattr("os.access", lambda path, mode: path != log)
    with pytest.raises(InputError, match=r"answers.jsonl: read-only, .*; give --answers FILE"):
        run_review(run=str(made.run), quiet=True, answers=str(log))


def test_a_taken_port_and_answers_of_another_run_are_refused(
    made: Made, page: Served, tmp_path: Path
) -> None:
    port = int(page.url.split(":")[2].split("/")[0])
    with pytest.raises(InputError, match="cannot be used"):
        listening(port)
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "other.npz", X=rng.normal(size=(100, 2)), y=np.arange(100) % 2)
    fit(tmp_path / "other.npz", tmp_path / "other", noise="minmax")
    with pytest.raises(InputError, match="answers on other rows"):
        answers_on(Trained.of(str(tmp_path / "other")), page.log)


def started(made: Made, log: Path) -> tuple[subprocess.Popen[str], str]:
    command = [
        sys.executable,
        "-m",
        "flows.cli",
        "review",
        "--run",
        str(made.run),
        "--workers",
        "0",
    ]
    command += ["-q", "--budget", str(BUDGET), "--answers", str(log)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line):
            return process, found[0]
    raise AssertionError("no address")


def test_killed_and_gone_on_with(made: Made, tmp_path: Path) -> None:
    """kill -9 after some answers; then the same command, ended as an impatient person ends it."""
    log, asked = tmp_path / "answers.jsonl", []
    for end in (signal.SIGKILL, signal.SIGINT):
        process, url = started(made, log)
        served = Served(url, log, made)
        for _ in range(3):
            (card,) = served.get("api/next", tab="t")["cards"]
            asked.append(card["row"])
            served.answer(card["row"], 1)
        for _ in range(2):
            process.send_signal(end)
            time.sleep(0.02)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert "--corrections" in out
    assert len(set(asked)) == 6
    assert [said.row for said in AnswersFile.open(str(log)).answers.rows()] == sorted(asked)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def visit(browser: Chrome, page: Served, width: int = 1200, dark: bool = False) -> None:
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    browser.get_log("browser")  # what an earlier page said of its server, which has ended
    browser.get(page.url)
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".card"))


def until(browser: Chrome, holds: Any) -> None:
    stale = (StaleElementReferenceException,)  # the page moved on between two looks
    WebDriverWait(browser, 10, 0.1, ignored_exceptions=stale).until(lambda _: holds())


def row(browser: Chrome) -> int:
    return int(browser.find_element(By.CSS_SELECTOR, ".card").get_attribute("data-row") or -1)


def press(browser: Chrome, *keys: str) -> None:
    browser.switch_to.active_element.send_keys(*keys)


def test_by_keyboard_alone(browser: Chrome, page: Served) -> None:
    visit(browser, page)
    answers = lambda: page.answers().answers  # noqa: E731
    first = row(browser)
    start = time.perf_counter()
    press(browser, "1")
    assert row(browser) != first  # at once: the next is loaded already
    assert time.perf_counter() - start < 1
    until(browser, lambda: first in answers())
    second = row(browser)
    press(browser, "k")
    until(browser, lambda: second in answers())
    third = row(browser)
    press(browser, "s")
    until(browser, lambda: third in answers())
    assert answers().of_row(third).label is None
    press(browser, "u")
    until(browser, lambda: third not in answers())
    until(browser, lambda: row(browser) == third)
    press(browser, "u")
    until(browser, lambda: second not in answers())
    browser.refresh()  # what was answered before is not asked again
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".card"))
    assert row(browser) != first
    press(browser, "g")
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, ".card")) == 12)
    press(browser, Keys.ARROW_RIGHT)
    marked = browser.find_element(By.CSS_SELECTOR, ".card[aria-current]")
    there = int(marked.get_attribute("data-row") or -1)
    press(browser, "2")
    until(browser, lambda: there in answers())
    until(browser, lambda: "1 of" not in browser.find_element(By.ID, "pace").text)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_group_and_text_on_a_phone(browser: Chrome, page: Served) -> None:
    visit(browser, page, width=400, dark=True)
    inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert inner[0] <= inner[1]
    assert "<i>" not in browser.find_element(By.ID, "desk").get_attribute("innerHTML")
    while not browser.find_elements(By.CSS_SELECTOR, "input.all"):
        press(browser, "s")
    leader = row(browser)
    text = browser.find_element(By.CSS_SELECTOR, ".card .exhibit:has(img) p").text
    assert text == f"text of {leader} <i>"  # beside the picture
    press(browser, "a")
    assert browser.find_element(By.CSS_SELECTOR, "input.all").is_selected()
    press(browser, "1")
    until(browser, lambda: leader in page.answers().answers)
    group = [a for a in page.answers().answers.answers.values() if len(a.rows) > 1]
    assert len(group) == 1


@pytest.mark.parametrize(("width", "others"), [(1280, 6), (400, 2)])
def test_rows_of_a_table_beside_their_neighbors(
    browser: Chrome, page_of_table: Served, width: int, others: int
) -> None:
    visit(browser, page_of_table, width=width)

    def inside(part: str) -> list[Any]:
        found = browser.find_elements(By.CSS_SELECTOR, f".cells {part}")
        return [one for one in found if one.is_displayed()]

    own = row(browser)
    assert f"name N{own} · row {own}" in browser.find_element(By.CSS_SELECTOR, ".card p").text
    names = [one.text.splitlines() for one in inside("tbody th")]
    assert names[:3] == [["name"], ["note", "no feature"], ["gap", "no feature"]]
    assert names[4:6] == [["x0"], ["x1"]]
    assert len(inside("thead th")) == 1 + others
    region = inside("tbody tr:nth-child(4) td")
    assert [one.get_attribute("class") for one in region] == ["", *["equal"] * others]
    assert inside("td.gap")[0].text == "gap"
    notes = inside("td .long")  # which scroll by themselves
    assert len(notes) == 1 + others
    assert max(one.size["height"] for one in notes) <= 180
    for part in ("html", ".cells"):
        script = f"const e = document.querySelector('{part}'); return e.scrollWidth - e.clientWidth"
        assert browser.execute_script(script) == 0
    while not browser.find_elements(By.CSS_SELECTOR, "input.all"):
        press(browser, "s")
    press(browser, "a")
    assert browser.find_element(By.CSS_SELECTOR, "details.alike").get_attribute("open")
    arrows = "return getComputedStyle(document.querySelector('thead .open'), '::after').content"
    assert browser.execute_script(arrows) == "none"  # they open, and do not sort
    opener = browser.find_elements(By.CSS_SELECTOR, "details.alike thead .open")[-1]
    alike = opener.text
    opener.click()
    assert beside(browser, "h2") == [alike.capitalize()]
    assert beside(browser, "thead th") == ["this row", alike]
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def beside(browser: Chrome, part: str) -> list[str]:
    """Texts of what is open beside a question."""
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, f"#opened[open] {part}"))
    return [one.text for one in browser.find_elements(By.CSS_SELECTOR, f"#opened[open] {part}")]


def test_a_neighbor_opens_whole_and_goes_back(
    browser: Chrome, page_of_table: Served, page: Served
) -> None:
    visit(browser, page_of_table)
    own = row(browser)
    _, queue = listed(page.made)
    near = queue["neighbor"][queue["row"].tolist().index(own)].tolist()
    press(browser, "n")
    assert beside(browser, "h2") == [f"Row {near[0]}"]
    assert beside(browser, "p")[0].startswith(f"name N{near[0]} · labeled ")
    columns = dict(zip(beside(browser, "tbody th"), beside(browser, "td:last-child"), strict=True))
    assert [columns["name"], columns["x0"]] == [f"N{near[0]}", f"{near[0]}.0"]
    assert len(columns["note\nno feature"]) > 150
    press(browser, "1", "k")  # nothing is answered beside a question
    press(browser, "n")
    until(browser, lambda: beside(browser, "h2") == [f"Row {near[1]}"])
    press(browser, "p")
    until(browser, lambda: beside(browser, "h2") == [f"Row {near[0]}"])
    press(browser, Keys.ESCAPE)
    until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "#opened[open]"))
    assert row(browser) == own
    assert not list(page_of_table.answers().answers.rows())
    outside = next(at for at in range(N) if at not in queue["row"] and at not in queue["neighbor"])
    reply = httpx.get(f"{page_of_table.url}api/content/{outside}")
    assert (reply.status_code, "reload the page" in reply.text) == (422, True)
    visit(browser, page, width=400)
    third = browser.find_elements(By.CSS_SELECTOR, ".near .open")[2]
    assert re.fullmatch(r"(no|yes <b>)\n\d+\.\d\d away", third.text)
    third.click()
    assert len(beside(browser, ".pair img")) == 2
    assert beside(browser, "h2") != [f"Row {row(browser)}"]
    over = "const e = document.getElementById('opened'); return e.scrollWidth - e.clientWidth"
    assert browser.execute_script(over) == 0
    inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert inner[0] <= inner[1]
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_answers_wait_in_the_browser_while_the_server_is_away(
    browser: Chrome, page: Served
) -> None:
    visit(browser, page)
    browser.execute_script(
        "window.real = window.fetch; window.fetch = () => Promise.reject(new Error('away'))"
    )
    first = row(browser)
    press(browser, "1")
    until(browser, lambda: "Not saved yet" in browser.find_element(By.ID, "trouble").text)
    assert first not in page.answers().answers
    browser.refresh()
    until(browser, lambda: first in page.answers().answers)
    until(browser, lambda: unsent(browser) == [])


def test_a_tab_that_another_opened_is_asked_other_rows(browser: Chrome, page: Served) -> None:
    visit(browser, page)
    asked, handle = row(browser), browser.current_window_handle
    browser.execute_script("window.open(location.href)")  # with what its tab keeps, as a duplicate
    try:
        browser.switch_to.window(browser.window_handles[-1])
        until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".card"))
        assert row(browser) != asked
    finally:
        browser.close()
        browser.switch_to.window(handle)
    browser.refresh()  # gives its own rows back, and has them again
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".card"))
    assert row(browser) == asked


def test_a_key_that_is_held_down_answers_once(browser: Chrome, page: Served) -> None:
    visit(browser, page)
    first = row(browser)
    key = {"type": "keyDown", "key": "1", "text": "1"}
    for repeated in (False, True, True):
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", {**key, "autoRepeat": repeated})
    second = row(browser)
    assert second != first
    press(browser, "s")
    until(browser, lambda: second in page.answers().answers)
    assert [said.row for said in page.answers().answers.rows()] == sorted([first, second])


@pytest.fixture(scope="module")
def of_twelve(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run of as many classes, whose names begin alike."""
    folder, rng = tmp_path_factory.mktemp("twelve"), np.random.default_rng(7)
    kind = np.arange(600) % 12
    x = rng.normal(size=(600, 4)) + 4.0 * rng.normal(size=(12, 4))[kind]
    given = np.where(rng.random(600) < 0.15, rng.integers(0, 12, 600), kind)
    frame = pd.DataFrame(x, columns=[*"abcd"]).assign(kind=[f"kind {one:02}" for one in given])
    frame.to_csv(folder / "table.csv", index=False)
    fit(folder / "table.csv", folder / "run", label_column="kind", k=None)
    return Made(folder, folder / "run", kind, given)


def test_another_label_is_chosen_by_keys_and_given_by_a_button(
    browser: Chrome, of_twelve: Made, tmp_path: Path
) -> None:
    with served(of_twelve, tmp_path / "answers.jsonl", None, None) as page:
        visit(browser, page)
        asked = row(browser)
        box = browser.find_element(By.CSS_SELECTOR, "select[aria-label='another label']")
        label = box.find_elements(By.TAG_NAME, "option")[2].text
        browser.execute_script("arguments[0].focus()", box)
        press(browser, Keys.ARROW_DOWN)
        press(browser, Keys.ARROW_DOWN)
        assert (row(browser), list(page.answers().answers.rows())) == (asked, [])
        press(browser, Keys.TAB)
        press(browser, Keys.ENTER)
        until(browser, lambda: asked in page.answers().answers)
        assert page.answers().answers.of_row(asked).label == label


def test_only_a_row_on_the_list_can_be_looked_at_again(browser: Chrome, page: Served) -> None:
    _, queue = listed(page.made)
    outside = next(at for at in range(N) if at not in queue["row"])
    keep(page.answers(), [(outside, "ann", "no"), (outside, "bob", "yes <b>")])
    page.answer(asked := int(queue["row"][0]), 0)
    page.answer(asked, 1, reviewer="bob")
    visit(browser, page)
    browser.refresh()
    until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#conflicts li")) == 2)
    told = {one.text for one in browser.find_elements(By.CSS_SELECTOR, "#conflicts li")}
    assert f"row {outside}: ann: no, bob: yes <b> not on this list" in told
    browser.find_element(By.CSS_SELECTOR, "#conflicts button").click()
    until(browser, lambda: row(browser) == asked)


def test_text_from_right_to_left_stands_so(browser: Chrome, made: Made, tmp_path: Path) -> None:
    table = pd.DataFrame({"note": ["שלום, world!"] * N, "n": ["-1"] * N})
    table.to_csv(tmp_path / "table.csv", index=False)
    shown = Shown(str(tmp_path / "table.csv"), None, N, None)
    with served(made, tmp_path / "answers.jsonl", None, shown) as page:
        visit(browser, page)
        at = """const range = document.createRange();
            const cell = document.querySelectorAll(".cells tbody tr")[arguments[0]].cells[1];
            range.selectNodeContents(cell);
            const text = range.getBoundingClientRect(), box = cell.getBoundingClientRect();
            return text.left - box.left > box.right - text.right - 14;"""
        assert [browser.execute_script(at, place) for place in range(2)] == [True, False]


def test_an_undo_that_failed_is_tried_again_on_the_same_answer(
    browser: Chrome, page: Served
) -> None:
    visit(browser, page)
    asked: list[int] = []
    for _ in range(2):
        asked.append(row(browser))
        press(browser, "1")
        until(browser, lambda: asked[-1] in page.answers().answers)
    browser.execute_script(
        "window.real = window.fetch; window.fetch = () => Promise.reject(new Error('away'))"
    )
    trouble = browser.find_element(By.ID, "trouble")
    press(browser, "u")
    until(browser, lambda: trouble.text == "away")
    browser.execute_script("window.fetch = window.real")
    press(browser, "u")
    until(browser, lambda: row(browser) == asked[1])
    assert asked[0] in page.answers().answers
    assert asked[1] not in page.answers().answers
    assert trouble.text == ""


def test_an_address_that_has_ended_is_said_whatever_the_page_asks_of_it(
    browser: Chrome, page: Served
) -> None:
    visit(browser, page)
    browser.execute_script(
        "window.fetch = () => Promise.resolve(new Response('no', {status: 403}))"
    )
    for key in "1u":  # to answer, to load the next questions and to undo
        press(browser, key)
        time.sleep(0.3)
        assert "address has ended" in browser.find_element(By.ID, "trouble").text
    first = row(browser)
    browser.get(page.url)
    until(browser, lambda: unsent(browser) == [])
    assert first not in page.answers().answers


def test_texts_of_the_nearest_rows_are_beside_a_text(
    browser: Chrome, made: Made, tmp_path: Path
) -> None:
    shown = Shown(str(made.folder / "texts.parquet"), None, N, None)
    _, queue = listed(made)
    with served(made, tmp_path / "answers.jsonl", None, shown) as page:
        visit(browser, page, width=400)
        near = queue["neighbor"][queue["row"].tolist().index(row(browser))].tolist()
        tiles = browser.find_elements(By.CSS_SELECTOR, ".near.texts .open")
        beside_it = [tile.text.splitlines()[0] for tile in tiles if tile.is_displayed()]
        assert beside_it == [f"text of {at} <i>" for at in near[:6]]
        inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert inner[0] <= inner[1]


def test_labels_that_are_digits_are_their_own_keys(
    browser: Chrome, exported: Made, tmp_path: Path
) -> None:
    with served(exported, tmp_path / "answers.jsonl", None, None) as page:
        visit(browser, page)
        for label in (1, 0):
            asked = row(browser)
            press(browser, str(label))
            until(browser, lambda: asked in page.answers().answers)  # noqa: B023
            assert page.answers().answers.of_row(asked).label == label


def test_a_digit_that_is_a_label_is_no_other_s_key(browser: Chrome, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    sign = rng.choice([-1, 1], 240)
    frame = pd.DataFrame(rng.normal(size=(240, 3)) + 2.0 * sign[:, None], columns=[*"abc"])
    given = np.where(rng.random(240) < 0.2, -sign, sign)
    frame.assign(y=given).to_csv(tmp_path / "table.csv", index=False)
    fit(tmp_path / "table.csv", tmp_path / "run", label_column="y")
    made = Made(tmp_path, tmp_path / "run", sign, given)
    with served(made, tmp_path / "answers.jsonl", None, None) as page:
        visit(browser, page)
        for key, label in (("1", 1), ("2", -1)):
            asked = row(browser)
            press(browser, key)
            until(browser, lambda: asked in page.answers().answers)  # noqa: B023
            assert page.answers().answers.of_row(asked).label == label


def unsent(browser: Chrome) -> Any:
    """Answers that the browser keeps until they are on the server's disk."""
    kept = browser.execute_script("return {...localStorage}")
    return json.loads(next(v for k, v in kept.items() if k.startswith("unsent")))


def test_people_are_asked_for_the_labels_that_are_bought(browser: Chrome, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    kind = np.repeat(["cat", "dog"], 60)
    x = rng.normal(size=(120, 3)) + 6.0 * (kind == "dog")[:, None]
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.assign(pet=[f"p{row}" for row in range(120)]).to_csv(tmp_path / "pool.csv", index=False)
    args = ("acquire", tmp_path / "pool.csv", "--run", tmp_path / "run", "--budget", "12")
    args += ("--id-column", "pet")
    args += ("--page", "--label-values", "cat", "--label-values", "dog", "--workers", "0", "--json")
    log = tmp_path / "acquire.log"
    with running("-m", "flows.cli", *args, log=log) as process:
        wait_for(lambda: "http://" in log.read_text())
        browser.get(re.findall(r"http://\S+", log.read_text())[0])
        asked: list[int] = []
        while len(asked) < 12:
            until(browser, lambda: answered(browser, asked, kind))
        until(browser, lambda: "Nothing more" in browser.find_element(By.ID, "desk").text)
        assert "--corrections" not in browser.find_element(By.ID, "desk").text
        assert process.wait(30) == 0
    assert len(set(asked)) == 12
    labels = pq.read_table(tmp_path / "run/labels.parquet").to_pandas()
    assert (labels["label"].to_numpy() == kind).mean() > 0.95
    said = AnswersFile.open(str(tmp_path / "run/review/answers.jsonl")).answers
    assert {one.row: one.label for one in said.rows()} == {at: kind[at] for at in asked}


def answered(browser: Chrome, asked: list[int], kind: np.ndarray) -> bool:
    """Whether a new row is asked about; it is then answered."""
    at = browser.execute_script("return Number(document.querySelector('.card')?.dataset.row ?? -1)")
    if at < 0 or at in asked:
        return False
    assert f"pet p{at} · row {at} · " in browser.find_element(By.CLASS_NAME, "card").text
    label = ["cat", "dog"].index(kind[at])
    script = "document.querySelector(`[data-label='${arguments[0]}']`).click()"
    browser.execute_script(script, label)
    asked.append(at)  # after all that may find the card just being made anew, and is tried again
    return True
