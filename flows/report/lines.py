"""Lines of the text of a training that kinds of labels share: rows, suspects, and who labeled."""

import numpy as np

from flows.intake.labels import spelled_alike
from flows.report import metric
from flows.report.findings import bounded, findings, together_lines
from flows.report.model import PoolReport, Training, span, where
from flows.steps.ingest.pool import SAMPLE_ROWS, CorrectionsUsed
from pipeline.decision.odds import WeighedVote
from pipeline.decision.quality import Weights
from pipeline.decision.tempering import AGREEING, Worth
from pipeline.labels import ClassName
from pipeline.noise.annotator_pairs import AlikePair
from pipeline.noise.annotator_verdicts import Annotator, Annotators
from pipeline.noise.groups import APART, Group, Groups
from pipeline.noise.regions import RegionRates
from storage.errors import amount, listed

SHOWN = 5
"""Confusions and regions that the text lists."""
SURE = 0.05
"""p-value below which groups are said to differ."""
GROUPS = 10
"""Groups that the text lists."""
MEANINGS = 3
"""Labels of a group that mean another class, in its sentence."""
ANNOTATORS = 10
"""Annotators that the text lists."""
FIRST = 5
"""Rows to look at first that the text lists."""


def of_labels(report: Training) -> list[str]:
    """The rows that are suspect, and who labeled them."""
    return [
        *_wrong_in_all(report),
        *together_lines(report),
        f"labels suspected wrong: {report.n_label_issues:,} "
        f"({report.n_label_issues / report.n_rows:.1%}), listed in label_issues.parquet",
        f"outliers: {report.n_outliers:,}; rows with near duplicates: "
        f"{report.n_near_duplicates:,}, {report.n_contradicting:,} of them with another label: "
        "data_issues.parquet",
        *findings(report),
        *_corrections(report.corrections),
        *report.since,
        *group_lines(report),
        *annotator_lines(report),
    ]


def predicted_by(worth: Worth | None, vote: WeighedVote | Weights | None, n_rows: int) -> list[str]:
    """How new rows are predicted, by one k or, if there is a vote of them, several sizes, and what
    that is worth in a sample of the pool; nothing where the user chose."""
    if worth is None:
        return []
    error = 1.96 * float(np.hypot(worth.gain_error, worth.matrix_error))
    more = "more" if worth.gain >= 0 else "fewer"
    rows = f"{abs(worth.gain):,.0f} ± {error:,.0f} {more} of the sampled rows right, as estimated"
    if error > min(n_rows, SAMPLE_ROWS):
        rows = "too little is known of the mistakes to tell how many more rows that gets right"
        if worth.agreeing >= AGREEING:
            rows += ", but more agree with their given labels"
    if worth.taken:
        several = "several sizes of neighborhoods"
        weights = vote.weights if isinstance(vote, WeighedVote) else vote
        if weights is not None and weights.reach is not None:
            several += ", with how far these reach,"
        several += " and models of the features" if vote is not None and vote.trees else ""
        by = f"new rows are predicted by {several} together, not by one k"
        if error == 0.0:
            return [f"{by}, which predicts the sampled rows alike"]
        by += "" if worth.gain >= 0 else ", which is not surely better"
    else:
        by = "new rows are predicted by one k, beside which several sizes together may lose"
    return [f"{by}: {rows}"]


def _wrong_in_all(report: Training) -> list[str]:
    share, interval = report.share_wrong, report.share_wrong_interval
    if share is None or interval is None or report.noise == "given":
        return []
    return [
        f"labels wrong in all: {share:.1%}, 95 % interval {span(interval, '.1%')}: "
        "rates are read where the classes are pure, and mistakes where they meet look like overlap"
    ]


def classes_line(report: PoolReport) -> str:
    """Rows, features and classes."""
    return (
        f"{report.n_rows:,} rows, {amount(report.n_features, 'feature')}, "
        f"label {report.label_name!r} of {len(report.classes):,} classes"
    )


def about_data(report: PoolReport) -> list[str]:
    """What a look at the source found, and the scale."""
    return [
        *([] if report.config.health is None else report.config.health.lines()),
        *([f"lines that repeat a row: {report.n_repeated:,}"] if report.n_repeated else []),
        *([f"scale {report.scale}: {report.scale_reason}"] if report.scale_reason else []),
        *_pca(report),
        *metric.lines(report),
    ]


def _pca(report: PoolReport) -> list[str]:
    if report.pca is None:
        return []
    return [
        f"pca: {report.pca.n_components:,} components keep {report.pca.variance_kept:.1%} of the "
        f"variance of {report.n_features:,} features"
    ]


def varying_lines(report: Training) -> list[str]:
    """Classes whose mistakes depend on the features."""
    return [f"  mistakes depend on the features in {line}" for line in varying(report)[:SHOWN]]


def _corrections(used: CorrectionsUsed | None) -> list[str]:
    if used is None:
        return []
    left_out = f"; {used.n_conflicts:,} left out, as reviewers disagree" if used.n_conflicts else ""
    return [
        f"labels checked by people: {used.n_rows:,} from {used.file}, which count as certain, "
        f"{used.n_changed:,} of them corrected{left_out}"
    ]


def varying(report: Training) -> list[str]:
    """A sentence for each class whose mistakes depend on the features."""
    texts = []
    for name, test in zip(report.classes, report.tests, strict=False):
        if test is None or not test["disagree"]:
            continue
        first, last = test["regions"][0], test["regions"][-1]
        texts.append(
            f"{name}: {first['rate']:.0%} of the labels differ {_where(report, first)}, "
            f"{last['rate']:.0%} {_where(report, last, 'another')}"
        )
    return texts


def _where(report: Training, region: RegionRates, which: str = "one") -> str:
    """A region by its bounds."""
    words = bounded(region["bounds"], report, which)
    first = "in" if next(iter(words.values()), False) else "where"
    return f"{first} {' and '.join(words) or 'all rows lie'}"


def verdict(groups: Groups) -> str:
    """Whether the groups differ."""
    if groups.p_value is None:
        return "nothing tells whether they differ"
    p = f"p = {groups.p_value:.3f}" if groups.p_value >= 0.001 else "p < 0.001"
    return f"they differ ({p})" if groups.p_value < SURE else f"they do not surely differ ({p})"


def remarks(groups: Groups) -> list[str]:
    """Sentences on labels that mean another class, on what limits the rates, and on rows without a
    group."""
    nobody = amount(groups.nobody, "row has", "rows have")
    spelled = spelled_alike(group.value for group in groups.groups)
    others: dict[ClassName, list[str]] = {}
    for one in groups.meanings:
        text = f"{one.given!r} → {one.means!r} ({one.share:.0%} of the rows)"
        others.setdefault(one.group, []).append(text)
    coded = [
        f"{group!r} may code labels otherwise; its label → that of such rows elsewhere: "
        f"{', '.join(each[:MEANINGS])}"
        f"{f' and {len(each) - MEANINGS:,} more' if len(each) > MEANINGS else ''}; if so, correct "
        "its labels in the source and train again"
        for group, each in others.items()
    ]
    return coded + where(
        (
            groups.apart > APART,
            f"groups live apart: a neighbor is of the same group {groups.apart:.0%} more often "
            "than by chance, so that a group's own mistakes can hide; rates are at most weak",
        ),
        (spelled, f"groups {spelled}: if they are one, write it in one way"),
        (groups.nobody, f"{nobody} no {groups.column!r}"),
    )


def group_lines(report: Training) -> list[str]:
    """The groups of a training as a person reads them; nothing where it has none."""
    groups = report.groups
    if groups is None:
        return []
    each = [_group_line(report, group) for group in groups.groups]
    return [
        "",
        f"whose labels, by {groups.column!r}: {amount(len(each), 'group')}, {verdict(groups)}",
        *_first(each, GROUPS, "groups"),
        *(f"  {line}" for line in remarks(groups)),
    ]


def _first(each: list[str], most: int, kind: str) -> list[str]:
    """At most so many lines of a list, and how many more it has."""
    more = len(each) - most
    rest = [f"{more:,} more {kind} in report.json"] if more > 0 else []
    return [f"  {line}" for line in [*each[:most], *rest]]


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


def warnings(panel: Annotators | None) -> list[str]:
    """What is doubtful about the annotations, as sentences."""
    if panel is None:
        return []
    chance = [one for one in panel.annotators if _is_no_better(one)]
    spelled = spelled_alike(one.value for one in panel.annotators)
    return where(
        (spelled, f"annotators {spelled}: if they are one, write the name in one way"),
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
            f"{amount(panel.n_unused, 'annotation has', 'annotations have')} a label that is no "
            "row's majority, and are left out; is it misspelled?",
        ),
        (
            chance,
            f"{_named(chance)}: hardly better than chance; are labels swapped, or given without a "
            "look?",
        ),
        *((pair, _alike(pair)) for pair in panel.alike[:SHOWN]),
    )


def _alike(pair: AlikePair) -> str:
    return (
        f"annotators {pair.first!r} and {pair.second!r} agree in {pair.agreement:.0%} of "
        f"{amount(pair.rows, 'row')}, where {pair.expected:.0%} would come of their agreement with "
        "others: does one copy from the other, or both from one source? Then both look better than "
        "they are, and others worse: leave out the labels of one"
    )


def _is_no_better(one: Annotator) -> bool:
    """Whether an annotator is surely no better than a guess among the classes."""
    n = 0 if one.matrix is None else len(one.matrix)
    return one.support != "unsupported" and n > 0 and one.interval[1] < 1.25 / n


def _named(few: list[Annotator]) -> str:
    return f"annotator{'s' if len(few) > 1 else ''} {listed((one.value for one in few), 3)}"


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
    each = [_annotator_line(one) for one in panel.annotators]
    return [
        "",
        f"annotators: {len(each):,}, {panel.n_annotations:,} annotations; {agreed(panel)}",
        *_first(each, ANNOTATORS, "annotators"),
        consensus(report, panel),
        "  look first at rows "
        + ", ".join(f"{row.row} ({row.certainty:.0%})" for row in panel.look_first[:FIRST])
        + " of its column row",
    ]


def _annotator_line(one: Annotator) -> str:
    return (
        f"{one.value!r}: {one.accuracy:.1%} right (95 % interval {span(one.interval, '.1%')}); "
        f"{amount(one.labels, 'label')}; {one.support}"
    )
