"""What the neighbor graph tells besides the labels, in sentences."""

import math
from collections.abc import Iterable, Sequence
from shlex import quote

from flows.report.model import PoolReport, Scoring, Training
from pipeline.diagnostics.file_order import FileOrder
from pipeline.diagnostics.unlike import Unlike
from pipeline.noise.rates import worst
from storage.errors import amount
from storage.sources.request import PLAIN_NUMBERS, Coding, is_place, stem

NOTICEABLE = 0.01
"""Share of scored rows, beyond what is usual in the training pool, that is worth a warning."""
TINY = 1e-12
"""p-values below are not told apart."""
SOMEBODYS = "Labels of one value of a column are unlike those near them, and rates are the others'."


def findings(report: PoolReport) -> list[str]:
    """Lines on the order of the rows, and on where labels are worst."""
    order = [] if report.order is None else [order_sentence(report.order)]
    worst = [f"  {sentence}" for sentence in segment_sentences(report)]
    return [*order, *(["where labels are worst:"] if worst else []), *worst]


def order_sentence(order: FileOrder) -> str:
    """How near in the file neighbors stand."""
    none = "" if order.ordered else "features follow none; "
    p = f"p = {order.p_value:.2g}" if order.p_value >= TINY else f"p < {TINY:g}"
    return f"order of the rows: {none}{_near(order)} ({p})"


def _near(order: FileOrder) -> str:
    apart = "next to each other" if order.within == 1 else f"at most {order.within:,} rows apart"
    return (
        f"{_percent(order.share)} of neighbors stand {apart}, in a shuffled file "
        f"{_percent(order.expected)}"
    )


def order_warning(order: FileOrder | None) -> list[str]:
    """The warning where rows come in an order."""
    if order is None or not order.ordered:
        return []
    return [
        f"rows that follow each other are alike: {_near(order)}. Is the source sorted or drifting, "
        "or are rows repeated measurements? Intervals take rows as independent; cut test sets by "
        "time or group, not at random"
    ]


def unlike_warning(report: PoolReport, unlike: Iterable[Unlike]) -> list[str]:
    """Warnings on features with a value whose rows' labels are unlike those near them."""
    coding = Coding.of_json(report.config.coding)
    texts = []
    for one in unlike:
        name = report.config.feature_names[one.feature]
        if is_place(name):
            continue
        column, value = coding.encoded.get(name, (name, coding.written(name, one.value, 6)))
        texts.append(
            f"labels where {column} is {value} ({_percent(one.size)} of the rows) are unlike those "
            f"near them: they differ from {_percent(one.differ)} of them, which differ among "
            f"themselves in {_percent(one.expected)}. If {column} says whose labels these are, or "
            f"where they come from, train again with --by {quote(column)}"
        )
    return texts


def together_lines(report: Training) -> list[str]:
    """How rows belong together by a column; nothing where no column is given."""
    if not report.n_together:
        return []
    by, groups = report.config.parameters["together"], amount(report.n_together, "group")
    apart = "whose rows are left out of each other's neighbors; rates count one row of each"
    return [f"together by {by!r}: {groups}, {apart}"]


def copied_warning(report: Training) -> list[str]:
    """The warning where label qualities see few of the mistakes that rates say there are."""
    least, by_quality = report.least_wrong, (report.n_wrong or 0.0) / report.n_rows
    if report.noise != "crossfit" or 2 * by_quality >= least:
        return []
    return [
        f"rates say that {least:.1%} of the labels are wrong at least, and label qualities see "
        f"{by_quality:.1%}: suspects are too few, as where copies of a row, or other rows of one "
        "person, vouch for its label; keep one row of each such group, and train again"
    ]


def at_most_weak(report: Training) -> Training:
    """The report with support at most weak: rates are likely too low, as somebody's mistakes look
    like overlap (`unlike_warning`)."""
    reason = f"{SOMEBODYS} {report.reason}"
    return report.model_copy(
        update={
            "support": worst([report.support, "weak"]),
            "class_support": [worst([one, "weak"]) for one in report.class_support],
            "reason": reason if report.support == "supported" else report.reason,
        }
    )


def segment_sentences(report: PoolReport) -> list[str]:
    """Where suspects are most frequent, the worst first."""
    return [
        f"{' and '.join(bounded(segment.bounds, report))}: {_percent(segment.share)} suspect "
        f"({_percent(segment.interval[0])} to {_percent(segment.interval[1])}), "
        f"{_percent(segment.elsewhere)} elsewhere; {_percent(segment.size)} of the rows"
        for segment in report.segments
    ]


def bounded(
    bounds: Iterable[Sequence[float | None]], report: PoolReport, which: str = "a"
) -> dict[str, bool]:
    """Bounds (feature, low, high), low < value ≤ high, in words → whether they are of a place in a
    column of lists. These mean nothing to people, and are called `which` region of the column. The
    feature after all others is the row's place in the source."""
    names = [*report.config.feature_names, "row of the source"]
    coding = Coding.of_json(report.config.coding)
    encoded = coding.encoded
    words: dict[str, bool] = {}
    for feature, low, high in bounds:
        assert feature is not None
        name = names[int(feature)]
        written = (coding if feature < len(names) - 1 else PLAIN_NUMBERS).written
        least, most = (None if v is None else written(name, v, 6) for v in (low, high))
        if name in encoded:
            column, value = encoded[name]
            word = f"{column} {'=' if least else '≠'} {value}"
        elif is_place(name):
            word = f"{which} region of {stem(name)}"
        elif least is None:
            word = f"{name} ≤ {most}"
        else:
            word = f"{name} > {least}" if most is None else f"{least} < {name} ≤ {most}"
        words[word] = name not in encoded and is_place(name)
    return words


def known_rows(report: Scoring) -> list[str]:
    """Scored rows that are in the training pool, where there are any."""
    if not report.n_near_training:
        return []
    nearly = report.n_near_training - report.n_equal_to_training
    equal = amount(report.n_equal_to_training, "row equals", "rows equal")
    return [f"{equal} a training row, {nearly:,} more nearly"]


def in_training(equal: int, near: int, n_rows: int, training: PoolReport) -> list[str]:
    """A warning where more scored rows are in the training pool than new rows would be.

    Of new rows about as many have an equal or nearly equal training row as training rows have
    another one.
    """
    usual = training.n_near_duplicates / training.n_rows
    if not _is_more(near, n_rows, usual):
        return []
    return [
        f"{near:,} of the {n_rows:,} scored rows ({_percent(near / n_rows)}) are in the training "
        f"pool, {equal:,} of them exactly; among the training rows {_percent(usual)} have such a "
        "neighbor. What is measured on them, such as accuracy, flatters"
    ]


def far_from_training(far: int, n_rows: int, training: PoolReport) -> list[str]:
    """A warning where more scored rows are outliers than training rows are."""
    usual = training.n_outliers / training.n_rows
    if not _is_more(far, n_rows, usual):
        return []
    return [
        f"{far:,} of the {n_rows:,} scored rows ({_percent(far / n_rows)}) are far from all "
        f"training rows; of these {_percent(usual)} are so far from the others. Are all columns in "
        "the units that they had? Of rows unlike all that were trained on, predictions say little"
    ]


def _is_more(count: int, n_rows: int, usual: float) -> bool:
    """Whether so many of some rows are more than the usual share of them, beyond chance."""
    error = math.sqrt(usual * (1 - usual) / n_rows)
    return count / n_rows >= usual + max(NOTICEABLE, 3 * error)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
