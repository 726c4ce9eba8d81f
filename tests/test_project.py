"""What is shipped: the wheel's top level, and the command."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent


def test_wheel_holds_the_four_packages_and_nothing_else(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    (info,) = [top for top in tops if top.endswith(".dist-info")]
    assert tops - {info} == {"knnoise", "storage", "pipeline", "flows"}
    assert {
        f"flows/report/page/templates/{name}" for name in ("report.html", "style.css", "table.js")
    } <= set(names)


def test_constraints_pin_every_requirement_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(line.count("==") == 1 for line in lines)
    assert len(lines) > 50


def test_what_security_promises_names_tests_that_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 8
    assert all((ROOT / name).is_file() for name in named)
