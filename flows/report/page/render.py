"""Templates of the pages: all that comes from data is escaped. Their sentences and small tables."""

import re
import shlex
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from rich.filesize import decimal

from flows.engine.progress import spell
from flows.report.lines import predicted_by
from flows.report.model import PoolReport, Training, was_in_memory
from pipeline.decision.odds import WeighedVote
from pipeline.decision.quality import Weights
from pipeline.decision.tempering import Worth
from storage.errors import amount

_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e"
    "\\u2060-\\u2069\\ufeff\\ud800-\\udfff]"
)
_LONGEST = 18
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
    )
    environment.filters |= {"percent": percent, "thousands": "{:,}".format, "contents": contents}
    environment.filters |= {"bytes": decimal, "seconds": spell, "strip": strip}
    page = environment.get_template(template).render(**context)
    return _CONTROLS.sub(lambda match: str(escape(_name(match))), page)


def on_axis(value: object) -> str:
    """A label or a group as figures name it: short, on one line."""
    text = _CONTROLS.sub(_name, " ".join(str(value).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _name(control: re.Match[str]) -> str:
    """What stands for a control character, which would turn or hide what is around it."""
    return f"<U+{ord(control.group()):04X}>"


def contents(sections: Markup) -> list[tuple[str, Markup]]:
    """(anchor, title) of each section."""
    return [(anchor, Markup(title)) for anchor, title in _HEADING.findall(sections)]


def strip(labels: list[int], text: str) -> Markup:
    """Neighbors' labels, nearest first, as bars: tall for 1, of two classes the second, of more the
    likely one; short for 0, the first, or the row's own; none for others and where missing. `text`
    says them in words."""
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


def percent(value: float) -> str:
    """A share for a sentence; the space does not break."""
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def wrong_in_all(report: Training) -> list[tuple[str, str, str]]:
    """The share of wrong labels among the numbers to keep, where it was estimated."""
    if report.share_wrong is None or report.share_wrong_interval is None or report.noise == "given":
        return []
    low, high = report.share_wrong_interval
    return [("wrong labels", percent(report.share_wrong), f"{percent(low)} to {percent(high)}")]


def sizes(worth: Worth | None, vote: WeighedVote | Weights | None, n_rows: int) -> str:
    """A sentence, and a space before it, on what predicts new rows; nothing where one k was asked
    for."""
    return "".join(f" {text[0].upper()}{text[1:]}." for text in predicted_by(worth, vote, n_rows))


def parameters(report: PoolReport) -> list[tuple[str, str, str]]:
    """Every parameter: (name, as asked, as it came out where it was chosen)."""
    given = report.config.parameters
    largest = report.largest_block_rows
    came: dict[str, object] = {
        "scale": report.scale,
        "k": report.k,
        "builder": report.builder,
        "block_rows": f"{amount(report.n_blocks, 'block')}, at most {amount(largest, 'row')}",
    }
    if report.pca is not None:
        came["pca"] = f"{report.pca.variance_kept:.1%} of the variance kept"
    if report.metric is not None:
        came["metric"] = report.metric.metric
    came |= report.came_out()
    none = {"features": "all", "annotations": "none", "annotator_column": "none"}
    none |= dict.fromkeys(("id_column", "exclude", "by", "together", "pca", "candidates"), "none")
    if was_in_memory(given.get("annotations") or ""):
        given = {**given, "annotations": "in memory"}
    return [
        (name, none.get(name, "auto") if value is None else str(value), str(came.get(name, value)))
        for name, value in given.items()
    ]


def next_steps(run: str, report: Training) -> list[tuple[str, str]]:
    """What a person may do with a training of single labels, each with its command."""
    source = "SOURCE" if report.config.health is None else report.config.health.source
    here, of = f"--run {shlex.quote(run)}", shlex.quote(source)
    steps = [("judge what is suspect", f"knnoise review {here}")]
    if report.annotators is None:
        clean = f"knnoise clean {of} {here} --out clean.parquet"
        if was_in_memory(source):
            clean = f"open_run({run!r}).clean(SOURCE, 'clean.parquet')"
        steps.append(("train another model", clean))
    return [*steps, ("predict new rows", f"knnoise score NEW {here} --out scores.parquet")]
