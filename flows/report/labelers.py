"""Who gave the labels, in words: groups whose labels are wrong; annotators and their consensus."""

from flows.report.model import Training, span, where
from pipeline.noise.annotator_verdicts import Annotator, Annotators
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


def group_lines(report: Training) -> list[str]:
    """The groups of a training as a person reads them; nothing where it has none."""
    groups = report.groups
    if groups is None:
        return []
    n, more = len(groups.groups), len(groups.groups) - SHOWN
    return [
        "",
        f"whose labels, by {groups.column!r}: {amount(n, 'group')}, {verdict(groups)}",
        *(f"  {_group_line(report, group)}" for group in groups.groups[:SHOWN]),
        *([f"  {more:,} more groups in report.json"] if more > 0 else []),
        *(f"  {line}" for line in remarks(groups)),
    ]


def _group_line(report: Training, group: Group) -> str:
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


ANNOTATORS = 10
"""Annotators that the text lists."""
FIRST = 5
"""Rows to look at first that it lists."""


def warnings(panel: Annotators | None) -> list[str]:
    """What is doubtful about the annotations, as sentences."""
    if panel is None:
        return []
    chance = [one for one in panel.annotators if _is_no_better(one, panel)]
    return where(
        (
            not panel.shared,
            "few rows have labels of several annotators, so that how often these are wrong rests "
            "on what neighbors say, and verdicts are at most weak; let annotators share some rows",
        ),
        (
            panel.n_empty,
            f"{amount(panel.n_empty, 'line')} of the annotations without a label left out",
        ),
        (
            panel.n_unused,
            f"{panel.n_unused:,} annotations are of labels that are no row's majority, and are "
            "left out; are they misspelled?",
        ),
        (
            chance,
            f"{_named(chance)}: hardly better than chance; are labels swapped, or given without a "
            "look?",
        ),
    )


def _is_no_better(one: Annotator, panel: Annotators) -> bool:
    """Whether an annotator is surely no better than a guess among the classes."""
    n = 0 if one.matrix is None else len(one.matrix)
    return one.support != "unsupported" and n > 0 and one.interval[1] < 1.25 / n


def _named(some: list[Annotator]) -> str:
    names = ", ".join(repr(one.value) for one in some[:3])
    more = f" and {len(some) - 3:,} more" if len(some) > 3 else ""
    return f"annotator{'s' if len(some) > 1 else ''} {names}{more}"


def agreed(panel: Annotators) -> str:
    """How annotators agree."""
    agreement = panel.agreement
    if not agreement.pairs:
        return "no row has several annotations"
    alike = agreement.agreeing / agreement.rows
    return (
        f"{amount(agreement.rows, 'row')} with several, all alike in {alike:.1%}; "
        f"two annotators of a row agree in {agreement.equal / agreement.pairs:.1%}"
    )


def consensus(report: Training, panel: Annotators) -> str:
    """What comes of the annotations."""
    return (
        f"consensus in consensus.parquet: {amount(panel.n_changed, 'row')} "
        f"({panel.n_changed / report.n_rows:.1%}) are not what most annotators say; mean certainty "
        f"{panel.certainty:.1%}"
    )


def annotator_lines(report: Training) -> list[str]:
    """The annotators of a training as a person reads them; nothing where labels are single."""
    panel = report.annotators
    if panel is None:
        return []
    n, more = len(panel.annotators), len(panel.annotators) - ANNOTATORS
    return [
        "",
        f"annotators: {n:,}, {panel.n_annotations:,} annotations; {agreed(panel)}",
        *(f"  {_annotator_line(one)}" for one in panel.annotators[:ANNOTATORS]),
        *([f"  {more:,} more annotators in report.json"] if more > 0 else []),
        consensus(report, panel),
        "  look first at rows "
        + ", ".join(f"{row.row:,} ({row.certainty:.0%})" for row in panel.look_first[:FIRST]),
    ]


def _annotator_line(one: Annotator) -> str:
    return (
        f"{one.value!r}: {one.accuracy:.1%} right (95 % interval {span(one.interval, '.1%')}); "
        f"{amount(one.labels, 'label')}; {one.support}"
    )
