"""Which neighbors belong together with a row, as a column of the source has it."""

from __future__ import annotations

import numpy as np

from flows.engine.collectives.graph import Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Inbox, Replies
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_block
from pipeline.noise.copies import FEWEST, of_one_value
from storage.arrays.groups import Arrays, read_array
from storage.errors import InputError, amount, shown
from storage.runs.pool import Pool
from storage.runs.run import Run

MOST_COUNTED = 1 << 20
"""Groups that are counted one by one; more are estimated to a thousandth by the least of their
hashes."""


def count_groups(pool: Pool, column: str) -> int:
    """How many groups a column makes of the rows of a pool, those that are alone among them.

    Raises `InputError` where they are too few for neighbors of other groups to tell anything.
    """
    least, alone, beyond = np.empty(0, np.int64), 0, False
    for rows in pool.parts():
        group = pool.read("together", rows)
        alone += int((group < 0).sum())
        least = np.union1d(least, group[group >= 0])
        beyond |= len(least) > MOST_COUNTED
        least = least[:MOST_COUNTED]
    count = round((len(least) - 1) * 2**63 / int(least[-1])) if beyond else len(least)
    if not count:
        raise InputError(f"--together {shown(column)}: the column is empty; leave out --together")
    if count + alone < FEWEST:
        raise InputError(
            f"--together {shown(column)}: {amount(count + alone, 'group')}, and at least {FEWEST} "
            "are needed; name a finer column, such as the patient, or leave out --together"
        )
    return count + alone


def mark_mates(job: Job, graph: PoolGraph) -> None:
    """Write for each block which neighbors belong together with its rows."""
    requests = over_graph(job, graph, "together-rows", asks=Asks(own=True))
    known = over_rows(job, graph, "together-values", _values, requests=requests)
    inboxes = known.inboxes("answers", graph.n_blocks)
    job.parts("together", mark_part, by_block(enumerate(inboxes)))


def _values(at: SourceRows) -> Arrays:
    return {"together": at.read("together")} if at.wanted else {}


def mark_part(run: Run, part: Part[tuple[int, Inbox]]) -> Output:
    """One block."""
    number, inbox = part.args
    graph = run.group(f"graph/{number:05d}")
    row, neighbor = (read_array(graph, name) for name in ("row", "neighbor"))
    alike = np.zeros(neighbor.shape, np.bool_)
    if len(row):
        replies = Replies(inbox)
        group = np.append(replies.columns["together"], -1)
        alike = of_one_value(group[replies.places(row)], group[replies.places(neighbor)])
    return Output(run.write(f"mates/{number:05d}", "mates", {"mate": alike}))
