"""People as the oracle of `acquire`: they are asked for labels on the page of a review."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from flows.options.params import AcquireParams
from flows.review.desk import NEAREST, Desk
from flows.review.purchases import Oracle, Purchases
from flows.review.source import exhibit_of
from pipeline.arrays import Float32, Int64
from pipeline.knn.distance import list_distance
from storage.arrays.groups import Arrays
from storage.errors import InputError, amount
from storage.sources.values.labels import Label, label_value

LOOK_SECONDS = 0.1
"""Between looks whether all is answered."""
CLOSING_SECONDS = 2.0
"""The page says that nothing more is asked before it ends."""


@contextmanager
def people(
    bought: Purchases, x: Float32, neighbor: Int64, params: AcquireParams
) -> Iterator[Oracle]:
    """A page that asks for labels of those that are known, and those that are given; open for as
    long as labels are bought.

    x : (row, feature) scaled features
    neighbor : (row, list) nearest rows, -1 in empty places

    Raises `InputError` where there is nothing to choose, or the page cannot be opened as asked.
    """
    from flows.review.server import Page

    given = [label_value(raw) for raw in params.label_values or ()]
    labels = list(dict.fromkeys([*(one for one in given if one is not None), *bought.values]))
    if len(labels) < 2:
        raise InputError(
            f"{amount(len(labels), 'label')} that people can give; name them: --label-values cat "
            "--label-values dog"
        )
    exhibit = exhibit_of(bought.run, len(x), params)
    nothing = questions(np.empty(0, np.int64), x, neighbor, {})
    desk = Desk(nothing, bought.file, labels, params.budget, 0.0, optional=False, waiting=True)
    with Page(exhibit, desk, params) as page:

        def ask(rows: list[int]) -> list[Label]:
            known = {one.row: one.label for one in desk.file.answers.rows()}
            place = {label: at for at, label in enumerate(desk.labels)}
            codes = {row: place[label] for row, label in known.items() if label in place}
            queue = questions(np.array(rows, np.int64), x, neighbor, codes)
            exhibit.read(np.concatenate([queue["row"], queue["neighbor"].ravel()]))
            desk.put(queue)
            while not desk.labeled(rows):
                page.check()
                time.sleep(LOOK_SECONDS)
            labels = (desk.file.answers.of_row(row).label for row in rows)
            return [label for label in labels if label is not None]

        page.start()
        yield ask
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
