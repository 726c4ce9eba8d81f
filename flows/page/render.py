"""Templates of the pages: everything that comes from data is escaped."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flows.page.words import percent

_BAR, _GAP, _TALL, _SHORT = 3, 1, 14, 6


def render(template: str, **context: Any) -> str:
    """A page, as one self-contained HTML document."""
    environment = Environment(
        loader=PackageLoader("flows.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent, thousands="{:,}".format, bytes=_bytes, strip=label_strip, seconds=_seconds
    )
    return environment.get_template(template).render(**context)


def label_strip(labels: tuple[int, ...]) -> Markup:
    """Neighbours' labels, nearest first, as bars: tall for 1, short for 0, none where missing."""
    step = _BAR + _GAP
    bars = {
        value: "".join(
            f"M{i * step} {_TALL - height}h{_BAR}v{height}h-{_BAR}z"
            for i, label in enumerate(labels)
            if label == value
        )
        for value, height in ((1, _TALL), (0, _SHORT))
    }
    told = " ".join("–" if y < 0 else str(y) for y in labels)
    text = f"{sum(y == 1 for y in labels)} of {len(labels)} are 1; nearest first: {told}"
    return Markup(
        '<svg class="strip" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        'aria-label="{text}"><title>{text}</title><path class="one" d="{one}"/>'
        '<path class="zero" d="{zero}"/></svg>'
    ).format(w=len(labels) * step, h=_TALL, text=text, one=bars[1], zero=bars[0])


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def _seconds(value: float) -> str:
    return f"{value / 60:,.1f} min" if value >= 120 else f"{value:,.1f} s"
