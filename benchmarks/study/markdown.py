"""Markdown tables and small plots."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

mpl.use("Agg")
FIRST, LONG = 40, 20
"""Cells of a page's first table, which is the finding, and of its others, that are read there."""
COLORS = ("#3b6fb6", "#d9822b", "#4a8f5a", "#8a5fa8", "#b33f3f", "#777777")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; floats as given, so format them before."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def page(path: Path, title: str, *parts: str) -> None:
    """A page; a table that has more cells than are read lies beside it as CSV, whole."""
    paragraphs = "\n\n".join((f"# {title}", *parts)).split("\n\n")
    most = FIRST
    for number, text in enumerate(paragraphs):
        lines = text.splitlines()
        if len(lines) < 3 or not lines[1].startswith("| ---"):
            continue
        cells = [[cell.strip() for cell in line.strip("| ").split(" |")] for line in lines]
        rows = [row for at, row in enumerate(cells) if at != 1]
        if (len(rows) - 1) * len(rows[0]) > most:
            link = _beside(path.with_name(f"{path.stem}-{number}.csv"), rows)
            head = lines[: 2 + FIRST * 2 // 3 // len(rows[0])] if most == FIRST else []
            paragraphs[number] = "\n\n".join(filter(None, ("\n".join(head), link)))
        most = LONG
    path.write_text("\n\n".join(paragraphs) + "\n")


def _beside(file: Path, rows: list[list[str]]) -> str:
    """The link that stands for a long table."""
    with file.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)
    columns = ", ".join([*rows[0][:3], *["…"][: len(rows[0]) - 3]])
    return f"[{len(rows) - 1} rows: {columns}]({file.name})"


def axes_row(count: int, width: float = 9.0, height: float = 3.2) -> tuple[Figure, Any]:
    figure, axes = plt.subplots(1, count, figsize=(width, height), layout="constrained")
    every = [axes] if count == 1 else list(axes)
    for one in every:
        one.spines[["top", "right"]].set_visible(False)
    return figure, every


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=90, facecolor="white")
    plt.close(figure)


def mean_sd(values: Sequence[float], digits: int = 4) -> str:
    mean = sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)) ** 0.5
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"
