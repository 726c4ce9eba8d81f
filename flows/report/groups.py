"""Whose labels are wrong, in words."""

from __future__ import annotations

from flows.report.model import Training, span, where
from pipeline.noise.groups import APART, Group, Groups
from storage.errors import amount

SURE = 0.05
"""p-value below which groups are said to differ."""
SHOWN = 10
"""Groups that the text lists."""


def verdict(groups: Groups) -> str:
    """Whether the groups differ."""
    if groups.p_value is None:
        return "nothing tells whether they differ"
    p = f"p = {groups.p_value:.3f}" if groups.p_value >= 0.001 else "p < 0.001"
    return f"they differ ({p})" if groups.p_value < SURE else f"they do not surely differ ({p})"


def remarks(groups: Groups) -> list[str]:
    """What limits the rates, and rows that count for no group, as sentences."""
    checked = sum(group.checked for group in groups.groups)
    nobody = amount(groups.nobody, "row has", "rows have")
    return where(
        (
            groups.apart > APART,
            f"groups live apart: a neighbor is of the same group {groups.apart:.0%} more often "
            "than by chance, so that a group's own mistakes can hide; rates are at most weak",
        ),
        (groups.nobody, f"{nobody} no {groups.column!r}"),
        (
            checked,
            f"{amount(checked, 'label')} that somebody checked count for no group; where suspects "
            "were checked, the labels left look better than the group's are",
        ),
    )


def lines(report: Training) -> list[str]:
    """The groups of a training as a person reads them; nothing where it has none."""
    groups = report.groups
    if groups is None:
        return []
    n, more = len(groups.groups), len(groups.groups) - SHOWN
    return [
        "",
        f"whose labels, by {groups.column!r}: {amount(n, 'group')}, {verdict(groups)}",
        *(f"  {_line(report, group)}" for group in groups.groups[:SHOWN]),
        *([f"  {more:,} more groups in report.json"] if more > 0 else []),
        *(f"  {line}" for line in remarks(groups)),
    ]


def _line(report: Training, group: Group) -> str:
    share = (
        f"{group.wrong:.1%} wrong (95 % interval {span(group.wrong_interval, '.1%')}; "
        f"shrunken {group.wrong_shrunk:.1%})"
    )
    known = {rate.true: rate.estimate for rate in group.rates}
    shown = [(f"p{code}", value) for code, value in enumerate(report.grouped_classes)]
    rates = [f"{name} {known[value]:.3f}" for name, value in shown if value in known]
    text = ", ".join([share, *rates])
    return (
        f"{group.value!r}: {text}; {amount(group.rows, 'row')}, {group.suspects:,} suspect "
        f"({group.suspects / max(1, group.rows):.1%}); {group.support}"
    )
