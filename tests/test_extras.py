"""The small installation: what it can do, and what it says of the rest."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from runs import PoolWriter

from flows.cli import main
from flows.options.extras import EXTRAS

ROOT = Path(__file__).parent.parent


ABSENT = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""


def without(names: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Python where some packages cannot be imported, as where they are not installed."""
    command = [sys.executable, "-c", ABSENT.format(names=names) + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def without_extras(code: str) -> subprocess.CompletedProcess[str]:
    return without(sum(EXTRAS.values(), ()), code)


def test_what_is_looked_for_is_what_the_extras_bring() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, modules in EXTRAS.items():
        wanted = {re.split(r"[>=<\[]", line)[0] for line in project["optional-dependencies"][extra]}
        assert {name.replace("-", "_") for name in wanted} - {"knnoise"} == set(modules)


def test_the_estimator_needs_no_extra() -> None:
    done = without_extras(
        "from knnoise import RobustKNeighborsClassifier\n"
        "from pipeline.simulate import flip, sheets\n"
        "x, y, _ = sheets(500, 0)\n"
        "print(RobustKNeighborsClassifier(5).fit(x, flip(y, 0.3, 0.1, 0)).predict(x).shape)\n"
    )
    assert done.stdout == "(500,)\n", done.stderr


def test_help_and_completion_need_no_extra() -> None:
    done = without_extras(
        "from flows.cli import main\n"
        "assert main(['--help']) == main(['completion', 'fish']) == main(['--version']) == 0\n"
    )
    assert done.returncode == 0
    assert "estimate noise rates" in done.stdout


@pytest.mark.parametrize("command", [["train", "x.csv", "--run", "r"], ["status", "--run", "r"]])
def test_a_command_says_what_to_install(command: list[str]) -> None:
    done = without_extras(f"from flows.cli import main\nsys.exit(main({command}))")
    assert done.returncode == 2
    assert done.stderr == (
        f"knnoise: knnoise {command[0]} needs pydantic, which is not installed: pip install "
        '"knnoise[flows]"\n'
    )


def test_a_function_says_what_to_install() -> None:
    done = without_extras("from knnoise import train")
    assert done.stderr.splitlines()[-1].endswith(
        'knnoise.train needs pydantic, which is not installed: pip install "knnoise[flows]"'
    )
    assert "MissingExtra" in done.stderr


@pytest.mark.parametrize(
    ("extra", "command", "said"),
    [
        ("report", ["report", "--run", "r", "--html", "r.html"], "--html needs matplotlib"),
        ("prefect", ["submit", "train"], "knnoise submit needs prefect"),
        ("prefect", ["train", "x.csv", "--run", "r"], "PREFECT_API_URL needs prefect"),
    ],
)
def test_other_extras_are_named_too(
    extra: str,
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    for name in EXTRAS[extra]:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f'knnoise: {said}, which is not installed: pip install "knnoise[{extra}]"\n'
    )


def test_a_certificate_is_not_drawn() -> None:
    done = without(EXTRAS["report"], "import flows.certify")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("package", "extra", "store"),
    [
        ("s3fs", "s3", "s3://bucket"),
        ("gcsfs", "gcs", "gs://bucket"),
        ("adlfs", "azure", "abfs://files"),
    ],
)
def test_object_stores_name_their_extra(
    package: str,
    extra: str,
    store: str,
    pool: PoolWriter,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened = import_module("fsspec.registry")._registry  # by any test of this process before
    monkeypatch.delitem(opened, store.split(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    needs = f'needs {package}, which is not installed: pip install "knnoise[{extra}]"\n'
    assert main(["check", f"{store}/pool.parquet"]) == 2
    assert capsys.readouterr().err == f"knnoise: {store}/pool.parquet {needs}"
    assert main(["train", str(pool()), "--run", f"{store}/run", "--workers", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"knnoise: {store}/run")
    assert said.endswith(needs)


def test_looking_and_learning_without_workers_import_no_cluster(
    pool: PoolWriter, tmp_path: Path
) -> None:
    run = ["--run", str(tmp_path / "run"), "--workers", "0", "-q"]
    code = (
        "import sys, knnoise\nfrom flows.cli import main\n"
        f"assert knnoise.train and main(['check', {str(pool())!r}, '-q']) == 0\n"
        f"assert main(['train', {str(pool())!r}, *{run}]) == 0\n"
        "names = {'bokeh', 'cryptography', 'prefect', 'distributed', 'sqlalchemy', 'matplotlib'}\n"
        "assert not names & {name.partition('.')[0] for name in sys.modules}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_training_needs_no_prefect(pool: PoolWriter, tmp_path: Path) -> None:
    train = ["train", str(pool()), "--run", str(tmp_path / "run"), "--workers", "0", "-q"]
    done = without(EXTRAS["prefect"], f"from flows.cli import main\nsys.exit(main({train}))")
    assert done.returncode == 0, done.stderr
    assert "noise rates" in done.stdout
