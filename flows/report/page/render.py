"""Templates of the pages: everything that comes from data is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flows.engine.results import LabelValue
from flows.report.page.words import percent

_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]"
)
_HEADING = re.compile(r'<h2 id="(.+?)">(.+?)</h2>')
_BAR, _GAP, _TALL, _SHORT = 3, 1, 14, 6


def render(template: str, **context: Any) -> str:
    """A page, as one self-contained HTML document."""
    environment = Environment(
        loader=PackageLoader("flows.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=with_controls_shown,
    )
    environment.filters |= {"percent": percent, "thousands": "{:,}".format, "contents": contents}
    environment.filters |= {"bytes": _bytes, "seconds": _seconds}
    environment.filters |= {"strip": label_strip, "class_strip": class_strip}
    return environment.get_template(template).render(**context)


def with_controls_shown(value: Any) -> Any:
    """Text whose control characters are named, such as `<U+202E>`: they would turn or hide what is
    around them."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _CONTROLS.sub(lambda match: f"<U+{ord(match.group()):04X}>", value)


def contents(sections: Markup) -> list[tuple[str, Markup]]:
    """(anchor, title) of each section."""
    return [(anchor, Markup(title)) for anchor, title in _HEADING.findall(sections)]


def label_strip(labels: tuple[int, ...], names: Sequence[LabelValue]) -> Markup:
    """Neighbors' labels, nearest first, as bars: tall for the second of both `names`, short for the
    first, none where missing."""
    text = ", ".join("–" if y < 0 else str(names[y]) for y in labels)
    of_second = f"{sum(y == 1 for y in labels)} of {len(labels)} are {names[1]}"
    return class_strip(labels, f"{of_second}; nearest first: {text}")


def class_strip(labels: tuple[int, ...], text: str) -> Markup:
    """The same for more classes: tall, 1, for the likely class, short, 0, for the row's own, none
    for others; `text` says them in words."""
    step = _BAR + _GAP
    bars = {
        value: "".join(
            f"M{i * step} {_TALL - height}h{_BAR}v{height}h-{_BAR}z"
            for i, label in enumerate(labels)
            if label == value
        )
        for value, height in ((1, _TALL), (0, _SHORT))
    }
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
