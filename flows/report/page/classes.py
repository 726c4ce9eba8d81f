"""What the page shows of more than two classes."""

from collections import Counter
from typing import Any, ClassVar

import numpy as np

from flows.engine.results import LabelValue
from flows.report.kinds import ClassReport
from flows.report.page.gather import Tally
from flows.report.page.kind import KindPage, of_labels
from flows.report.page.pictures import qualities
from flows.report.page.render import percent, sizes, wrong_in_all
from flows.report.page.suspects import STRIP, listed
from storage.arrays.groups import read_array
from storage.runs.run import Run

SHOWN = 26
"""Classes in the heat map and in the table; of more, those with most wrong labels."""
CONFUSIONS = 12


class ClassesPage(KindPage):
    """The page of more than two classes."""

    template: ClassVar = "classes.html"

    def shown(self, run: Run, report: ClassReport, tally: Tally) -> dict[str, Any]:
        suspects = listed(run, report, tally.suspects, describe, VERDICTS)
        wrong = np.asarray(report.class_noise) * report.class_counts
        codes = sorted(np.argsort(-wrong, kind="stable")[:SHOWN].tolist())
        pairs = Counter((one.verdict["given"], one.verdict["likely"]) for one in suspects)
        return {
            "verdict": verdict(report),
            "rule": rule(report),
            "facts": facts(report),
            "codes": codes,
            "heat": heat_map(run, codes, report.classes),
            "confusions": report.confused(CONFUSIONS),
            "doubtful_names": report.doubtful_names(),
            "histogram": qualities(tally.histogram, report.n_label_issues),
            "suspects": suspects,
            "pairs": pairs.most_common(),
            **of_labels(run, report),
        }


VERDICTS = ("given_label", "likely_label", "predicted_label", "given_share")


def describe(
    report: ClassReport, near: list[int], given: int, likely: int, predicted: int, share: float
) -> dict[str, Any]:
    """What is said of a suspect: its classes, and its neighbors' labels as a strip and in words."""
    names, votes = report.classes, Counter(code for code in near if code >= 0)
    commonest = sorted(votes, key=lambda code: (-votes[code], code))[:4]
    return {
        "given": names[given],
        "likely": names[likely],
        "predicted": names[predicted],
        "given_share": share,
        "strip": [1 if y == likely else 0 if y == given else -1 for y in near[:STRIP] if y >= 0],
        "votes": ", ".join(f"{votes[code]} {names[code]}" for code in commonest),
    }


def heat_map(run: Run, codes: list[int], names: list[LabelValue]) -> list[list[dict[str, Any]]]:
    """P(given | true) of some classes: value, title and shade, from 0 to 1, of the diagonal by
    itself, of mistakes against the commonest."""
    group = run.group("transition")
    matrix, lows, highs = (read_array(group, name) for name in ("matrix", "low", "high"))
    mistakes = matrix - np.diag(np.diag(matrix))
    largest = max(float(mistakes[np.ix_(codes, codes)].max()), 1e-9)

    def cell(a: int, b: int) -> dict[str, Any]:
        value, low, high = (float(of[a, b]) for of in (matrix, lows, highs))
        title = (
            f"{percent(value)} of the rows truly {names[a]} are labeled {names[b]} "
            f"(95 % interval {percent(low)} to {percent(high)})"
        )
        shade = value if a == b else value / largest
        return {"value": value, "shade": shade, "title": title}

    return [[cell(a, b) for b in codes] for a in codes]


def verdict(report: ClassReport) -> str:
    """The whole result in one plain sentence."""
    n, suspect = report.n_rows, report.n_label_issues
    wrong = report.share_wrong
    listed = f"{suspect:,} of {n:,} labels ({percent(suspect / n)}) are probably wrong"
    if wrong is None:
        return (
            "How many labels are wrong is not known, as most rows are of classes whose rates "
            f"nothing supports; {listed}."
        )
    known = (one for one in report.confusions if report.support_of[one.true] != "unsupported")
    worst = next(known, None)
    if worst is None:
        return f"About {percent(wrong)} of the labels are wrong; {listed}."
    most = (
        f"most often, {percent(worst.share)} of the rows that are truly {worst.true} are labeled "
        f"{worst.given}"
    )
    begin = "About" if report.support == "supported" else "On evidence that differs by class, about"
    return f"{begin} {percent(wrong)} of the labels are wrong ({most}); {listed}."


def rule(report: ClassReport) -> str:
    """How a new row is decided."""
    vote = f"A row gets the class for which its {report.k} nearest neighbors vote; the vote is"
    return f"{vote} {report.corrected()}.{sizes(report.worth, report.weighed, report.n_rows)}"


def facts(report: ClassReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    good = sum(verdict == "supported" for verdict in report.class_support)
    return [
        ("classes", f"{len(report.classes):,}", f"{good:,} with a supported rate"),
        *wrong_in_all(report),
        ("suspect labels", f"{report.n_label_issues:,}", f"of {report.n_rows:,} rows"),
    ]
