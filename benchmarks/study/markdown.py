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
LONG = 25
"""Rows of a table that are read on a page."""
COLORS = ("#3b6fb6", "#d9822b", "#4a8f5a", "#8a5fa8", "#b33f3f", "#777777")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; floats as given, so format them before."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def page(path: Path, title: str, *parts: str) -> None:
    """A page; each of its tables that is longer than a screen lies beside it as CSV."""
    paragraphs = "\n\n".join((f"# {title}", *parts)).split("\n\n")
    written = (_beside(path, number, text) for number, text in enumerate(paragraphs))
    path.write_text("\n\n".join(written) + "\n")


def _beside(path: Path, number: int, text: str) -> str:
    """A paragraph, or the link that stands for a long table."""
    lines = text.splitlines()
    if len(lines) <= LONG + 2 or not all(line.startswith("|") for line in lines):
        return text
    file = path.with_name(f"{path.stem}-{number}.csv")
    with file.open("w", newline="") as out:
        cells = ([cell.strip() for cell in line.strip("| ").split(" |")] for line in lines)
        rows = [row for at, row in enumerate(cells) if at != 1]
        csv.writer(out, lineterminator="\n").writerows(rows)
    return f"[{len(lines) - 2} rows: {', '.join(rows[0])}]({file.name})"


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
