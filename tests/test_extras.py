"""The small installation: what it can do, and what it says of the rest."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flows.options.extras import EXTRAS

ROOT = Path(__file__).parent.parent
WITHOUT = f"""
import sys
for name in {sum(EXTRAS.values(), ())!r}:
    sys.modules[name] = None  # as where it is not installed
"""


def without_extras(code: str) -> subprocess.CompletedProcess[str]:
    """Python where no extra can be imported."""
    command = [sys.executable, "-c", WITHOUT + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


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


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("main(['train', 'x.csv', '--run', 'r'])", "knnoise train needs pydantic"),
        ("main(['status', '--run', 'r'])", "knnoise status needs pydantic"),
        ("main(['submit', 'train'])", "knnoise submit train needs pydantic"),
    ],
)
def test_a_command_says_what_to_install(code: str, said: str) -> None:
    done = without_extras(f"from flows.cli import main\nsys.exit({code})")
    assert done.returncode == 2
    assert done.stderr == (
        f'knnoise: {said}, which is not installed: pip install "knnoise[flows]"\n'
    )


def test_a_function_says_what_to_install() -> None:
    done = without_extras("from knnoise import train")
    assert done.stderr.splitlines()[-1].endswith(
        'knnoise.train needs pydantic, which is not installed: pip install "knnoise[flows]"'
    )
    assert "MissingExtra" in done.stderr


def test_a_page_says_what_to_install() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; sys.modules['matplotlib'] = None\nfrom flows.cli import main\n"
            "sys.exit(main(['report', '--run', 'r', '--html', 'r.html']))",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        'knnoise: --html needs matplotlib, which is not installed: pip install "knnoise[report]"\n'
    )
