"""The report as a page: self-contained, honest about what it shows, usable in a real browser."""

from __future__ import annotations

import html
import re
import shlex
import shutil
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from browser import chromium, look
from runs import PoolWriter, fit
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from flows.cli import main
from flows.report.kinds import TrainReport
from flows.report.page.build import write_page
from flows.report.page.pictures import recall
from flows.report.page.render import on_axis
from flows.report.rows import shown_of
from flows.score import score
from pipeline.knn.lists import Recall
from storage.runs.run import Run

NASTY = "<script>alert(1)</script>"
FEATURES = (NASTY, 'a"b&c', "$x_1$", "d")
WHO = ("<i>ann", "$x_2$ & bob of a very long name", "\u202eeve")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table with hostile names, its scores, clean labels, and its page."""
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, 1500)
    x = rng.normal(size=(1500, 4)) + 2.5 * clean[:, None]
    wrong = rng.random(1500) < np.where(clean == 1, 0.1, 0.3)
    names = np.array(["no & <i>", "yes $5$ & <i>\u202e"])
    table = pd.DataFrame(x, columns=list(FEATURES)).assign(sick=names[clean ^ wrong])
    table["<i>who"] = np.array(WHO)[np.arange(1500) % 3]
    table.to_csv(folder / "train.csv", index=False)
    pd.DataFrame({"truth": names[clean]}).to_csv(folder / "truth.csv", index=False)
    run = str(folder / "a<b")
    fit(folder / "train.csv", run, label_column="sick", k=None, by="<i>who")
    out = str(folder / "scores.parquet")
    score.fn(str(folder / "train.csv"), run, out, workers=0, quiet=True)
    assert command(folder, run, "--scores", out, "--truth", folder / "truth.csv") == 0
    return folder


@pytest.fixture(scope="module")
def of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a matrix with three classes, and its page."""
    folder = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(5)
    clean = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 12)) + 2 * rng.normal(size=(3, 12))[clean]
    given = np.where(rng.random(600) < 0.1, (clean + 1) % 3, clean)
    np.savez(folder / "rows.npz", X=x.astype(np.float32), y=np.array(["cat", "dog", "ox"])[given])
    fit(folder / "rows.npz", folder / "run", k=None)
    assert command(folder, folder / "run") == 0
    return folder


def command(folder: Path, run: object, *more: object) -> int:
    page = folder / "page.html"
    return main(["report", "--run", str(run), "--html", str(page), *map(str, more)])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def test_page_needs_nothing_else_and_escapes_what_it_shows(made: Path) -> None:
    page = (made / "page.html").read_text()
    assert len(page) < 3e6
    outside = set(re.findall(r"https?://[^\s\"']+", page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "<script>alert" not in page
    assert "<i>" not in page
    assert "a&lt;b" in page
    ids = Counter(re.findall(r'\bid="([^"]+)"', page))
    assert [name for name, n in ids.items() if n > 1] == []
    assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", page)) <= set(ids)
    assert not re.search(r"#0[0-9]0[0-9]0[0-9]\b", page)


def test_contents_are_the_sections_internals_last(made: Path, of_three: Path) -> None:
    for folder, rates in ((made, "Noise rates"), (of_three, "Which class is labeled as which")):
        page = (folder / "page.html").read_text()
        header, _, sections = page.partition("</nav>")
        links = re.findall(r'<li><a href="#(h-\w+)">(.+?)</a>', header)
        assert links == re.findall(r'<h2 id="(h-\w+)">(.+?)</h2>', sections)
        titles = [title for _, title in links]
        assert rates in titles
        outcome, internals = page.split('id="h-internals"')
        for word in ("Brier", "recall", "η_corr", "core seconds"):
            assert word not in outcome
        assert "Brier" in internals
        assert titles[titles.index("Internals") + 1 :][-2:] == ["Time", "How it was made"]


def test_mistakes_of_a_class_that_lies_nowhere_are_not_known(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    clean = rng.integers(0, 2, 1000)
    x = rng.normal(size=(1000, 4)) + 2 * clean[:, None]
    given = np.where(rng.random(1000) < 0.15, 2, np.where(rng.random(1000) < 0.1, 1 - clean, clean))
    labels = np.array(["no", "yes", "unknown"])[given]
    np.savez(tmp_path / "rows.npz", X=x.astype(np.float32), y=labels)
    fit(tmp_path / "rows.npz", tmp_path / "run")
    assert command(tmp_path, tmp_path / "run") == 0
    page = (tmp_path / "page.html").read_text()
    assert "1 label is common nowhere" in page
    assert "&#39;unknown&#39; is the commonest label nowhere" in page
    assert page.count("not known</td>") == 2
    assert "0.0 % to 100.0 %" not in page


def test_the_axis_of_reliability_names_what_is_right(made: Path, of_three: Path) -> None:
    """The second of two classes; of more, the class predicted."""
    assert "share truly yes $5$" in (made / "page.html").read_text()
    run, out = of_three / "run", of_three / "scores.parquet"
    score.fn(str(of_three / "rows.npz"), str(run), str(out), workers=0, quiet=True)
    np.save(of_three / "truth.npy", np.load(of_three / "rows.npz")["y"])
    assert command(of_three, run, "--scores", out, "--truth", of_three / "truth.npy") == 0
    assert "share predicted rightly" in (of_three / "page.html").read_text()


def test_equal_runs_give_equal_pages(made: Path, tmp_path: Path) -> None:
    run = Run.of(made / "a<b")
    for name in ("one.html", "two.html"):
        write_page(run, str(tmp_path / name))
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.mark.parametrize(
    "options", [{"noise": "minmax"}, {"p0": 0.3, "p1": 0.1}, {"n": 120}], ids=str
)
def test_every_kind_of_run_has_a_page(
    pool: PoolWriter, tmp_path: Path, options: dict[str, Any]
) -> None:
    n = options.pop("n", 600)
    fit(pool(n), tmp_path / "run", **options)
    write_page(Run.of(tmp_path / "run"), str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "The marked size was asked for" in page
    assert ("Not computed" in page) == bool(options)
    svg = page[page.index('aria-labelledby="rates-t') :]
    assert ("from 0." in svg[: svg.index("</desc>")]) != bool(options)


def test_one_feature_from_several_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for part in ("east", "west"):
        clean = rng.random(400) < 0.5
        table = pd.DataFrame({"x": rng.normal(size=400) + 4 * clean, "y": clean})
        (tmp_path / "parts").mkdir(exist_ok=True)
        table.to_parquet(tmp_path / "parts" / f"{part}.parquet")
    fit(tmp_path / "parts", tmp_path / "run", label_column="y")
    write_page(Run.of(tmp_path / "run"), str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    files = re.findall(r"<td class=\"more\">(east|west)\.parquet</td>", page)
    assert set(files) == {"east", "west"}
    assert "truly False" in page


def test_recall_of_very_many_blocks_is_drawn_without_intervals() -> None:
    blocks = [(i, Recall(i / 300, (0.0, 1.0), 9)) for i in range(300)]
    report = TrainReport.model_construct(target_recall=0.95)
    few, many = (recall(blocks[:n], report) for n in (10, 300))
    assert few is not None
    assert many is not None
    assert "intervals" in few.caption
    assert "intervals" not in many.caption
    assert "300 blocks; the lowest recall is 0.0000 in block 0" in many.text
    assert recall([], report) is None


def test_suspects_are_the_rows_of_lowest_quality_of_each_label(made: Path) -> None:
    shown = rows_of(made, "suspects")
    issues = pd.read_parquet(made / "a<b" / "label_issues.parquet")
    worst = issues.set_index("row").loc[shown]
    assert len(set(shown)) == 20
    for given, some in worst.groupby("given_label"):
        least = issues.label_quality[issues.given_label == given].nsmallest(10)
        assert len(some) == 10
        assert some.label_quality.max() <= least.max()


def rows_of(made: Path, table: str) -> list[int]:
    page = (made / "page.html").read_text()
    drawn = page[page.index(f'<table id="{table}"') :].partition("</table>")[0]
    return [int(row) for row in re.findall(r'scope="row" class="n" data-value="(\d+)"', drawn)]


def test_rows_to_look_at_are_the_worst_of_all_data_issues(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 3))
    x[:14] += 30 * rng.normal(size=(14, 3))
    x[300:313] = x[400:413]
    y = (x[:, 0] > 0).astype(int)
    y[300:313] = 1 - y[400:413]
    pd.DataFrame(x, columns=[*"abc"]).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    fit(tmp_path / "rows.csv", tmp_path / "run", label_column="y")
    assert command(tmp_path, tmp_path / "run") == 0
    issues = pd.read_parquet(tmp_path / "run" / "data_issues.parquet").set_index("row")
    far = issues[issues.is_outlier].outlier_score
    assert set(rows_of(tmp_path, "outliers")) == set(far.nsmallest(10).index)
    alike = rows_of(tmp_path, "duplicates")
    assert len(alike) == 10
    assert issues.contradicting_duplicates.loc[alike].gt(0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_suspects_are_named_as_in_the_source(tmp_path: Path, n_classes: int) -> None:
    """By row, identifier and nearest rows of the source, of which some were left out."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, n_classes, 600)
    x = 3 * y[:, None] + rng.normal(size=(600, 2))
    x[::5, 0] = np.nan
    y[::7] = (y[::7] + 1) % n_classes
    table = pd.DataFrame(x, columns=[*"ab"]).assign(name=[f"no{i}" for i in range(600)], y=y)
    table.to_csv(tmp_path / "rows.csv", index=False)
    options = {"label_column": "y", "id_column": "name", "impute": "drop", "scale": "none"}
    fit(tmp_path / "rows.csv", tmp_path / "run", **options)
    assert command(tmp_path, tmp_path / "run") == 0
    kept = np.flatnonzero(np.isfinite(x[:, 0]))
    page = (tmp_path / "page.html").read_text()
    cells = re.findall(r'<td class="nearest" .*?</td>', page)
    near = r'<div><b>(\d)</b><span>(\S+)</span><small class="less">row (\d+)</small></div>'
    for row, cell in zip(rows_of(tmp_path, "suspects"), cells, strict=True):
        others = kept[kept != row]
        distance = np.sqrt(((x[others] - x[row]) ** 2).sum(axis=1))
        order = distance.argsort()[:3]
        lines = [(int(at), int(label), float(of)) for label, of, at in re.findall(near, cell)]
        assert [at for at, *_ in lines] == others[order].tolist()
        assert [label for _, label, _ in lines] == y[others[order]].tolist()
        assert np.allclose([of for *_, of in lines], distance[order], rtol=5e-3)
        assert f">{row}</th>\n<td>no{row}</td>" in page


def test_columns_stand_as_in_the_source(browser: Chrome, tmp_path: Path) -> None:
    """Text by its value and not by features made of it; dates as dates; all within the page."""
    rng = np.random.default_rng(2)
    plan = rng.choice(["basic", "plus"], 600)
    y = (plan == "plus") ^ (rng.random(600) < 0.1)
    table = pd.DataFrame({"customer": [f"C-{n:06}" for n in range(600)], "plan": plan})
    table["day"] = np.datetime64("2024-01-01") + rng.integers(0, 300, 600).astype("m8[D]")
    table = table.assign(monthly_spend=rng.normal(size=600), churned=np.where(y, "yes", "no"))
    table.to_csv(tmp_path / "rows.csv", index=False)
    options = {"label_column": "churned", "id_column": "customer", "encode": "one-hot"}
    fit(tmp_path / "rows.csv", tmp_path / "run", parse=["day=datetime"], k=None, **options)
    assert command(tmp_path, tmp_path / "run") == 0
    look(browser, tmp_path / "page.html", width=1280)
    heads = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#suspects thead th")]
    own = sorted(heads[heads.index("nearest rows") + 1 :])
    assert own == ["day", "monthly_spend", "plan"]
    for name in ("plan", "day"):
        shown = cells(browser, heads.index(name))
        assert shown == table[name].astype(str)[rows_of(tmp_path, "suspects")].tolist()
    box = browser.find_element(By.CSS_SELECTOR, ".scroll:has(#suspects)")
    assert inside(box, "scrollWidth") <= inside(box, "clientWidth")


def test_rows_are_shown_by_their_texts_and_pictures(tmp_path: Path, pool: PoolWriter) -> None:
    """A file per row below the root is a picture in the page; what is none is its text."""
    fit(pool(), tmp_path / "run")
    (tmp_path / "images").mkdir()
    dot = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAAAAAAALAAAAAABAAEAAAIBRAA7")
    (tmp_path / "images" / "dot.gif").write_bytes(dot)
    (tmp_path / "secret.gif").write_bytes(dot)
    table = pd.DataFrame({"file": ["dot.gif"] * 600, "notes": "a <b>note</b> " + "x" * 900})
    table.loc[::2, "file"] = "../secret.gif"
    table.to_csv(tmp_path / "shown.csv", index=False)
    show = ("--show", tmp_path / "shown.csv", "--show-column")
    assert (
        command(tmp_path, tmp_path / "run", *show, "file", "--image-root", tmp_path / "images") == 0
    )
    page = (tmp_path / "page.html").read_text()
    listed = [*rows_of(tmp_path, "suspects"), *rows_of(tmp_path, "outliers")]
    inside = sum(row % 2 for row in listed)
    assert page.count('src="data:image/gif;base64,R0lGOD') == inside > 0
    assert page.count(">../secret.gif</td>") == len(listed) - inside > 0
    assert command(tmp_path, tmp_path / "run", *show, "notes") == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("a &lt;b&gt;note&lt;/b&gt; xxx") == len(listed)
    assert "x" * 401 not in page


def test_a_table_that_shows_rows_is_held_to_their_ids(
    tmp_path: Path, pool: PoolWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    data = np.load(pool(300))
    table = pd.DataFrame(data["X"], columns=list("abcd")).assign(y=data["y"])
    table.insert(0, "who", [f"{row:04}" for row in range(300)])
    table.loc[7, "a"] = np.nan
    table.to_parquet(tmp_path / "train.parquet")
    fit(
        *(tmp_path / "train.parquet", tmp_path / "run"),
        **{"label_column": "y", "id_column": "who", "impute": "drop"},
    )
    notes = table[["who"]].assign(note=[f"note {row}" for row in range(300)])
    notes.to_csv(tmp_path / "notes.csv", index=False)
    notes[::-1].to_csv(tmp_path / "back.csv", index=False)
    show = ("--show-column", "note", "--show")
    assert command(tmp_path, tmp_path / "run", *show, tmp_path / "notes.csv") == 0
    assert "note 2" in (tmp_path / "page.html").read_text()
    by_id = ("--show-column", "who", "--show", tmp_path / "notes.csv")
    assert command(tmp_path, tmp_path / "run", *by_id) == 0
    run = Run.of(str(tmp_path / "run"))
    every = shown_of(run, 300, str(tmp_path / "notes.csv"), None, None)
    assert every is not None
    every.read(np.array([3]))
    assert every.of(3) == {"cells": ["0003", "note 3"]}
    assert command(tmp_path, tmp_path / "run", *show, tmp_path / "back.csv") == 2
    said = capsys.readouterr().err
    assert re.search(r"row (\d+) has who '\d{4}', that of the training '0*\1'; give --show", said)


def test_what_next_names_commands_that_run(made: Path, tmp_path: Path) -> None:
    page = (made / "page.html").read_text()
    drawn = re.findall(r"<code>(knnoise [^<]+)</code>", page.partition("What next")[2])
    steps = [shlex.split(html.unescape(line))[1:] for line in drawn[:3]]
    assert [args[0] for args in steps] == ["review", "clean", "score"]
    out = {"clean.parquet": str(tmp_path / "clean.parquet"), "NEW": str(made / "train.csv")}
    out["scores.parquet"] = str(tmp_path / "scores.parquet")
    for args in steps[1:]:
        assert main([out.get(word, word) for word in args]) == 0
        assert Path(out[args[-1]]).is_file()


def run_without_report(folder: Path, pool: PoolWriter) -> Path:
    fit(pool(), folder / "unfinished")
    (folder / "unfinished" / "report.json").unlink()
    (folder / "unfinished" / "ledger" / "report" / "all.json").unlink()
    return folder / "unfinished"


def test_bad_input_is_one_line(
    made: Path, pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "short.npy", np.zeros(3))
    np.save(tmp_path / "other.npy", np.arange(1500) % 2)
    alien, changed = tmp_path / "alien.parquet", tmp_path / "changed.parquet"
    pd.DataFrame({"posterior": [0.1]}).to_parquet(alien)
    scored = pq.read_table(made / "scores.parquet")
    of_another = {**scored.schema.metadata, b"knnoise.training": b"0" * 32}
    pq.write_table(scored.replace_schema_metadata(of_another), changed)
    run, scores = made / "a<b", made / "scores.parquet"
    (made / "two.csv").write_text("d\n1\n2\n")
    short, other = tmp_path / "short.npy", tmp_path / "other.npy"
    for expected, args in {
        "not a knnoise run": (tmp_path / "absent",),
        "not finished": (run_without_report(tmp_path, pool),),
        "belong together": (run, "--scores", scores),
        "1,500": (run, "--scores", scores, "--truth", short),
        "none of the training's classes": (run, "--scores", scores, "--truth", other),
        "not written by knnoise score": (run, "--truth", short, "--scores", alien),
        "write the scores as .parquet": (run, "--truth", short, "--scores", made / "two.csv"),
        "give --show-column one of": (run, "--show", made / "train.csv"),
        "no column 'absent'": (run, "--show", made / "train.csv", "--show-column", "absent"),
        "a row per training row": (run, "--show", made / "two.csv"),
        "give --show FILE too": (run, "--show-column", "d"),
        "of another training": (run, "--truth", made / "truth.csv", "--scores", changed),
        "give --truth-column, one of": (run, "--truth", made / "train.csv", "--scores", scores),
        "--truth absent.csv: no such file": (run, "--truth", "absent.csv", "--scores", scores),
    }.items():
        assert command(tmp_path, *args) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert said.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("lost", ["labels/eta_corr/c/0", "graph/00000/neighbor/c/0/0"])
def test_damage_is_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    shutil.copytree(made / "a<b", tmp_path / "run")
    (tmp_path / "run" / "results.zarr" / lost).unlink()
    assert command(tmp_path, tmp_path / "run") == 3
    said = capsys.readouterr().err
    assert lost in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_page_in_a_browser(browser: Chrome, made: Path, width: int, dark: bool) -> None:
    assert look(browser, made / "page.html", width=width, dark=dark) == []
    inner = "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert max(browser.execute_script(inner)) <= width  # type: ignore[no-untyped-call]
    figures = browser.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(figures) == 7  # one block: no chart of one dot
    for figure in figures:
        assert figure.is_displayed()
        assert min(figure.size["width"], figure.size["height"]) > 100
        assert figure.get_attribute("role") == "img"
        assert len(figure.accessible_name) > 3
    boxes = browser.find_elements(By.CSS_SELECTOR, ".scroll")
    wide = [box for box in boxes if inside(box, "scrollWidth") > inside(box, "clientWidth")]
    assert wide or width != 400
    assert all(box.get_attribute("tabindex") == "0" for box in boxes)
    paper = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark


def test_long_labels_to_choose_from_are_no_wider_than_a_telephone(
    browser: Chrome, of_three: Path
) -> None:
    look(browser, of_three / "page.html", width=400)
    longer = "document.querySelector('.controls option').textContent = 'x'.repeat(99);"
    inner = "return document.documentElement.scrollWidth"
    assert browser.execute_script(longer + inner) <= 400  # type: ignore[no-untyped-call]


def test_page_on_paper(browser: Chrome, made: Path) -> None:
    """Bars are backgrounds, which browsers leave out where nobody says otherwise; names of columns
    are buttons, which they do not repeat on the next sheet; and paper is never dark."""
    look(browser, made / "page.html", width=1280)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})

    def styled(selector: str, name: str) -> str:
        return browser.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)

    assert styled(".bar", "print-color-adjust") == "exact"
    assert styled("#suspects th button", "display") == "contents"
    paper = re.findall(r"\d+", styled("body", "background-color"))[:3]
    assert min(map(int, paper)) > 200


def inside(box: WebElement, name: str) -> int:
    return int(box.get_property(name))  # type: ignore[arg-type]


def cells(browser: Chrome, column: int) -> list[str]:
    rows = browser.find_elements(By.CSS_SELECTOR, "#suspects tbody tr")
    shown = [row for row in rows if row.is_displayed()]
    return [row.find_elements(By.CSS_SELECTOR, "th,td")[column].text for row in shown]


def test_suspects_are_sorted_and_filtered_by_keyboard(browser: Chrome, made: Path) -> None:
    look(browser, made / "page.html", width=1280)
    head = browser.find_element(By.CSS_SELECTOR, "#suspects thead th")
    button = head.find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    rows = [int(text) for text in cells(browser, 0)]
    assert rows == sorted(rows)
    assert head.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.SPACE)
    assert [int(text) for text in cells(browser, 0)] == rows[::-1]
    search = browser.find_element(By.CSS_SELECTOR, "[data-table=suspects] input")
    search.send_keys(str(rows[3]))
    assert str(rows[3]) in cells(browser, 0)
    assert len(cells(browser, 0)) < len(rows)
    search.clear()
    search.send_keys("no such row")
    assert cells(browser, 0) == []
    assert browser.find_element(By.TAG_NAME, "output").text == "0 of 20 rows"
    search.clear()
    search.send_keys(Keys.SPACE)
    choice = Select(browser.find_element(By.CSS_SELECTOR, "[data-table=suspects] select"))
    seen = []
    for value in ("0", "1"):
        choice.select_by_value(value)
        seen.append(len(cells(browser, 1)))
        assert len(set(cells(browser, 1))) <= 1
    assert sum(seen) == 20


def test_control_characters_are_named(made: Path) -> None:
    assert on_axis("\u202e\x07\n c") == "<U+202E><U+0007> c"
    assert len(on_axis("y " * 2000)) == 18
    page = (made / "page.html").read_text()
    assert "\u202e" not in page
    assert "are yes $5$ &amp; &lt;i&gt;&lt;U+202E&gt;; nearest first" in page


def test_names_that_are_no_text_are_written_out(made: Path, tmp_path: Path) -> None:
    run, changes = tmp_path / "a\udcff", tmp_path / "changes.html"
    shutil.copytree(made / "a<b", run)
    assert command(tmp_path, run) == 0
    assert main(["compare", str(made / "a<b"), str(run), "--html", str(changes)]) == 0
    for page in (tmp_path / "page.html", changes):
        assert "a&lt;U+DCFF&gt;" in page.read_text()
