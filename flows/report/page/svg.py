"""Matplotlib figures as inline SVG that takes its colors and fonts from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {
    "ink": "#010101",
    "muted": "#020202",
    "line": "#030303",
    "paper": "#040404",
    "zero": "#050505",
    "one": "#060606",
    "accent": "#070707",
    "zero-ink": "#080808",
    **{f"q{i}": f"#09090{i}" for i in range(5)},
}
"""Names of the page's colors → what stands for them until the SVG is on the page."""
WIDTH, HEIGHT = 4.7, 3.1
"""Inches of 100 units; on the page a figure is as wide as its column."""
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": COLORS["ink"],
    "axes.labelcolor": COLORS["muted"],
    "axes.edgecolor": COLORS["line"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 1.0,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": COLORS["line"],
    "grid.linewidth": 0.7,
    "xtick.color": COLORS["line"],
    "ytick.color": COLORS["line"],
    "xtick.labelcolor": COLORS["muted"],
    "ytick.labelcolor": COLORS["muted"],
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "figure.facecolor": "none",
    "lines.linewidth": 1.6,
}


@dataclass(frozen=True)
class Drawing:
    """A figure for the page."""

    name: str
    title: str
    caption: str
    """What a reader should see in it; shown below."""
    text: str
    """The same in words and numbers, for those who do not see it."""
    svg: Markup


@contextmanager
def axes(name: str, *, height: float = HEIGHT) -> Iterator[tuple[Axes, Figure]]:
    """One set of axes in the page's style; equal drawings give equal bytes."""
    with rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height), dpi=72, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.03)  # type: ignore[call-arg, union-attr]
        yield figure.add_subplot(), figure


def drawing(figure: Figure, name: str, title: str, caption: str, text: str) -> Drawing:
    """The figure as SVG with its alternative text; call it within `axes`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    match = re.search(r"<svg\b.*</svg>", buffer.getvalue(), re.DOTALL)
    assert match is not None
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", match.group(), flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # matplotlib numbers them anew in every figure
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for color, stand_in in COLORS.items():
        svg = svg.replace(stand_in, f"var(--{color})")
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = (
        f'<svg class="plot" {box.group()} role="img" aria-labelledby="{name}-t {name}-d" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>'
    )
    svg = re.sub(r"^<svg\b[^>]*>", lambda _: opening, svg, count=1)
    return Drawing(name, title, caption, text, Markup(svg))
