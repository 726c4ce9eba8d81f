"""What is shipped: the wheel's top level, and the command."""

from __future__ import annotations

import ast
import re
import zipfile
from collections import Counter
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


SHARED = {"Source", "Training"}
"""Names of two classes each: what a person holds is called as what it stands for."""


def test_classes_have_names_of_their_own() -> None:
    named = Counter(
        node.name
        for package in ("knnoise", "storage", "pipeline", "flows")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, times in named.items() if times > 1} <= SHARED


VERBS = {"told", "found", "asked", "seen", "held", "said"}
"""Verbs that say of a value how it came about, not what it is."""
MOST_VERBS = 16


def test_values_are_named_by_what_they_are() -> None:
    """`held_out` is a term; `Asked`, `Segments.found` and `WalksTried.held` are stored."""
    names = [
        name
        for package in ("knnoise", "storage", "pipeline", "flows")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for key in ("id", "arg", "attr", "name")
        if isinstance(name := getattr(node, key, None), str)
    ]
    verbs = [name for name in names if VERBS & {*name.lower().replace("held_out", "").split("_")}]
    assert len(verbs) <= MOST_VERBS, Counter(verbs).most_common(5)
