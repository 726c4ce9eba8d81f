"""The code of README and documentation: what is Python runs, what is a command is one of ours.

The tutorials are executed where the site is built; the block that submits to Prefect by
tests/deploy.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

from flows.cli import cli, main
from flows.orchestration.run_folders import dated

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
N = 600


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code of a page that are of a language."""
    found = re.finditer(r"^( *)```(\S*)\n(.*?)^\1```", page.read_text(), re.S | re.M)
    return [dedent(block[3]) for block in found if block[2] == language]


def commands(page: Path) -> Iterator[list[str]]:
    """What is typed after `knnoise` in the blocks of a page, what stands for more left out."""
    text = "\n".join([*blocks(page, ""), *blocks(page, "console")]).replace("\\\n", " ")
    for line in text.splitlines():
        words = re.match(r"\s*\$? ?knnoise (.*)", line.partition(" #")[0])
        if words:
            typed = shlex.split(re.split(r"\s[|>&]", words[1])[0])
            yield [word for word in typed if word not in ("...", "…")]


def names() -> dict[str, Any]:
    """What the blocks of Python take as given."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, N)
    x = (rng.normal(size=(N, 3)) + 3 * clean[:, None]).astype(np.float32)
    given = clean ^ (rng.random(N) < 0.15)
    order = np.argsort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)[:, 1:21]
    return {
        "__name__": "__main__",
        "np": np,
        "patients": pd.DataFrame(x, columns=["a", "b", "c"]).assign(sick=given),
        "X": x,
        "x": x,
        "X_new": x[:9],
        "query": x[:9],
        "given_labels": given,
        "label": given,
        "neighbor_label": given[order],
        "n": N,
        "k": 5,
        "ask": lambda rows: given[rows],
        "candidate": np.eye(2, dtype=bool)[given] | (rng.random((N, 2)) < 0.3),
        "n_classes": 2,
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_docs_is_one(page: Path) -> None:
    for typed in commands(page):
        for run in (word for before, word in pairwise(typed) if before == "--run"):
            assert "{" not in dated(run)  # raises on what is not filled in
        command: click.Command = cli
        while isinstance(command, click.Group) and typed:
            name = typed.pop(0)
            if name.startswith("-"):
                break
            assert name in command.commands, f"{page.name}: {name}"
            command = command.commands[name]
        context = click.Context(command)
        command.make_parser(context).parse_args(args=typed)  # raises on an option there is not


def test_the_code_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = names()
    given["patients"].to_csv("patients.csv", index=False)
    given["patients"].drop(columns=["sick"]).to_csv("new_patients.csv", index=False)
    (shell,) = [block for block in blocks(ROOT / "README.md", "") if "new_patients.csv" in block]
    for line in shell.splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
    assert (tmp_path / "scores.parquet").exists()
    assert (tmp_path / "report.html").exists()
    for page in PAGES:
        for code in blocks(page, "python"):
            if "submit(" in code:  # see tests/deploy
                continue
            if "duckdb" in code and find_spec("duckdb") is None:
                continue
            if page.name == "README.md":
                code = code.replace("runs/patients", "runs/frame")
            exec(compile(code, str(page), "exec"), dict(given))
    (config,) = blocks(ROOT / "docs/use/start.md", "toml")
    (tmp_path / "knnoise.toml").write_text(config)
    more = {"patient": [f"P{i}" for i in range(N)], "notes": "", "date_in": range(N)}
    given["patients"].assign(**more).to_csv("more.csv", index=False)
    assert main(["train", "more.csv", "--config", "knnoise.toml", "--run", "runs/more"]) == 0


def test_the_pool_of_operations_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/incoming").mkdir(parents=True)
    (code,) = re.findall(
        r"python - <<'END'\n(.*?)\n *END\n", (ROOT / "docs/use/operations.md").read_text(), re.S
    )
    exec(compile(dedent(code), "docs/use/operations.md", "exec"), {})
    assert len(pd.read_parquet("data/pool.parquet")) == 20_000
    assert len(pd.read_parquet("data/incoming/first.parquet")) == 1000


def test_decisions_have_a_status_and_a_date() -> None:
    pages = sorted((ROOT / "docs/build/decisions").glob("*.md"))
    assert pages
    for page in pages:
        status = page.read_text().splitlines()[2]
        assert re.fullmatch(r"\*(Accepted|Replaced by .+), \d{4}-\d\d-\d\d\.\*", status), page.name
