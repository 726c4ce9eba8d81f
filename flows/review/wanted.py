"""People as the oracle of `acquire`: they are asked for labels on the page of a review."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from flows.engine.results import LabelValue
from flows.options.params import AcquireParams
from flows.review.desk import NEAREST, Desk
from flows.review.serving import Page, PageRows
from pipeline.arrays import Float32, Int64
from pipeline.knn.distance import list_distance
from storage.answers import AnswersFile
from storage.arrays.groups import Arrays
from storage.sources.values.labels import Label

LOOK_SECONDS = 0.1
"""Between looks whether all is answered."""
CLOSING_SECONDS = 2.0
"""The page says that nothing more is asked before it ends."""


@dataclass(frozen=True)
class People:
    """Those who answer on a page."""

    desk: Desk
    page: Page
    x: Float32
    neighbor: Int64

    def __call__(self, rows: list[int]) -> list[Label]:
        """Their labels of rows, as soon as there is one for each."""
        known = {one.row: one.label for one in self.desk.file.answers.rows()}
        place = {label: at for at, label in enumerate(self.desk.labels)}
        codes = {row: place[label] for row, label in known.items() if label in place}
        queue = questions(np.array(rows, np.int64), self.x, self.neighbor, codes)
        self.page.show(np.concatenate([queue["row"], queue["neighbor"].ravel()]))
        self.desk.put(queue)
        while not self.desk.labeled(rows):
            self.page.check()
            time.sleep(LOOK_SECONDS)
        labels = (self.desk.file.answers.of_row(row).label for row in rows)
        return [label for label in labels if label is not None]


@contextmanager
def people(
    file: AnswersFile,
    rows: PageRows,
    x: Float32,
    neighbor: Int64,
    params: AcquireParams,
    labels: list[LabelValue],
) -> Iterator[People]:
    """A page that asks, open for as long as labels are bought.

    x : (row, feature) scaled features
    neighbor : (row, list) nearest rows, -1 in empty places
    labels : what people can give

    Raises `InputError` where the page cannot be opened as asked.
    """
    nothing = questions(np.empty(0, np.int64), x, neighbor, {})
    desk = Desk(nothing, file, labels, params.budget, 0.0, optional=False, waiting=True)
    with Page(rows, desk, params) as page:
        page.start()
        yield People(desk, page, x, neighbor)
        desk.waiting = False
        desk.put(nothing)
        time.sleep(CLOSING_SECONDS)


def questions(row: Int64, x: Float32, neighbor: Int64, known: dict[int, int]) -> Arrays:
    """The columns of a review's list for rows without a label; `known` has codes by row."""
    near = neighbor[row, :NEAREST]
    distance = list_distance(x[row], x, near)
    label = np.array([[known.get(one, -1) for one in some] for some in near.tolist()], np.int64)
    label = label.reshape(near.shape)
    likely = [np.bincount(some[some >= 0]).argmax() if (some >= 0).any() else -1 for some in label]
    n = len(row)
    return {
        "row": row,
        "given_label": np.full(n, -1),
        "likely_label": np.array(likely, np.int64),
        "label_quality": np.zeros(n),
        "moved": np.zeros(n, np.int64),
        "is_label_issue": np.zeros(n, np.bool_),
        "group": np.arange(n),
        "suspect_draw": np.full(n, -1),
        "row_draw": np.full(n, -1),
        "neighbor": near,
        "distance": distance,
        "neighbor_label": label,
    }
