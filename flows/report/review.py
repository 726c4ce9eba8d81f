"""What checked labels say of all labels: precision of the suspects, true share of wrong labels."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flows.engine.results import LabelValue
from flows.report.model import Frozen, Interval, PoolReport, span
from pipeline.decision.review import answered_draws, share_interval
from storage.answers import Answers, AnswersFile
from storage.arrays.groups import Arrays, read_group
from storage.errors import amount
from storage.runs.run import Run

FOLDER = "review"
LOG = f"{FOLDER}/answers.jsonl"
"""Where answers are kept, below a run."""
WANTED = "wanted.csv"
BATCH = f"{FOLDER}/batch.json"
"""The rows whose labels were asked for last; none when all are there."""


def batch_rows(run: Run) -> list[int]:
    """The rows of `BATCH`."""
    rows: list[int] = (run.read_json(BATCH) or {}).get("rows", [])
    return rows


class Share(Frozen):
    """How many of the rows drawn at random have wrong labels."""

    n: int
    wrong: int
    interval: Interval
    """95 %, of the share among all such rows."""


class Measured(Frozen):
    """What a review's answers measure."""

    n_checked: int
    """Suspects looked at one by one whose label is now known, the most useful first."""
    n_wrong: int
    suspects: Share
    """Of the suspects drawn at random."""
    rows: Share
    """Of the rows drawn at random."""
    expected: float
    """Share of wrong labels that the training estimates."""
    n_labels: int
    """Rows whose label is known from the answers, groups and imports included."""
    n_conflicts: int

    def as_json(self) -> dict[str, Any]:
        """With the sentences that people read."""
        return {**super().as_json(), "sentences": self.sentences()}

    def sentences(self) -> list[str]:
        """What page and report state."""
        texts = []
        if self.n_checked:
            texts.append(
                f"Of {amount(self.n_checked, 'checked suspect')} {self.n_wrong:,} were wrong."
            )
        if self.suspects.n:
            drawn = amount(self.suspects.n, "suspect")
            texts.append(
                f"Of {drawn} drawn at random {self.suspects.wrong:,} were "
                f"wrong ({span(self.suspects.interval, '.0%')})."
            )
        if self.rows.n:
            texts.append(
                f"Of {amount(self.rows.n, 'row')} drawn at random {self.rows.wrong:,} have wrong "
                f"labels ({span(self.rows.interval, '.0%')}); the training estimates "
                f"{self.expected:.1%}."
            )
        if self.n_conflicts:
            texts.append(f"Reviewers disagree on {amount(self.n_conflicts, 'row')}.")
        return texts


def share_wrong(report: PoolReport) -> float:
    """Share of wrong labels that a training estimated; where it rests on too little, the share of
    suspects."""
    wrong = report.share_wrong
    return report.n_label_issues / report.n_rows if wrong is None else wrong


def measure(
    queue: Arrays, answers: Answers, labels: Sequence[LabelValue], expected: float
) -> Measured:
    """What the answers say; a random draw counts up to its first row without an answer."""
    every = list(answers.rows())
    place = {row: at for at, row in enumerate(queue["row"].tolist())}
    known, wrong, answered = (np.zeros(len(place), np.bool_) for _ in range(3))
    for one in every:
        at = place.get(one.row)
        if at is not None:
            answered[at], known[at] = True, one.label is not None
            given = int(queue["given_label"][at])
            wrong[at] = known[at] and given >= 0 and one.label != labels[given]

    def share(draw: str) -> Share:
        at = answered_draws(queue[draw], answered)
        n, hits = int(known[at].sum()), int(wrong[at].sum())
        return Share(n=n, wrong=hits, interval=share_interval(hits, n))

    alone = {
        answer.rows[0].row
        for answer in answers.answers.values()
        if answer.rows[0].drawn != "imported"
    }
    checked = np.isin(queue["row"], list(alone)) & queue["is_label_issue"] & known
    return Measured(
        n_checked=int(checked.sum()),
        n_wrong=int(wrong[checked].sum()),
        suspects=share("suspect_draw"),
        rows=share("row_draw"),
        expected=expected,
        n_labels=sum(one.label is not None for one in every),
        n_conflicts=sum(one.conflict for one in every),
    )


def measured(run: Run, report: PoolReport) -> Measured | None:
    """What the answers kept with a training measure, by the list on which most random draws were
    answered; None where nothing was asked."""
    if not run.location.is_local or not run.location.exists(LOG):
        return None
    file = AnswersFile.open(run.location.path(LOG))
    queues = [read_group(one.store, "review") for one in lists(run)]
    if not queues:
        return None
    expected = share_wrong(report)
    every = [measure(one, file.answers, report.label_values, expected) for one in queues]
    return max(every, key=lambda one: (one.rows.n + one.suspects.n, one.n_checked))


def lists(run: Run) -> Iterator[Run]:
    """The finished lists of a training."""
    names = {key.split("/")[1] for key in run.location.files(FOLDER) if key.endswith("report.json")}
    for name in sorted(names):
        yield run.below(f"{FOLDER}/{name}")
