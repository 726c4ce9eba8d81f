"""Names of tasks on a cluster that others may be using."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dask.utils import key_split
from distributed import Client, LocalCluster, get_task_stream

from flows.engine.parts import Part, run_parts, task_keys

PARTS = [Part(f"block-{number:05d}", {"number": number}) for number in range(4)]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def number_plus_one(part: Part) -> int:
    return int(part.args["number"]) + 1


def number_plus_two(part: Part) -> int:
    return int(part.args["number"]) + 2


def test_names_tell_step_and_part_and_are_grouped_by_step() -> None:
    keys = task_keys("neighbors", PARTS)
    assert [key.rsplit("-", 1)[0] for key in keys] == [f"neighbors-{p.name}" for p in PARTS]
    assert {key_split(key) for key in keys} == {"neighbors-block"}
    assert {key_split(key) for key in task_keys("neighbors-1", PARTS)} == {"neighbors"}


def test_runs_on_one_scheduler_share_nothing(client: Client) -> None:
    """Two runs with steps and parts of the same names at the same time, but other work."""
    one = run_parts(number_plus_one, PARTS, lambda: client, step="neighbors", run="one")
    two = run_parts(number_plus_two, PARTS, lambda: client, step="neighbors", run="two")
    first_of_one, first_of_two = next(one), next(two)
    assert {first_of_one, *one} == {1, 2, 3, 4}
    assert {first_of_two, *two} == {2, 3, 4, 5}


def test_scheduler_knows_run_and_step(client: Client) -> None:
    list(run_parts(number_plus_one, PARTS, lambda: client, step="graph", run="nightly"))

    def spans(dask_scheduler: object) -> set[tuple[str, ...]]:
        return {span.name for span in dask_scheduler.extensions["spans"].spans.values()}  # type: ignore[attr-defined]

    assert ("nightly", "graph") in client.run_on_scheduler(spans)


def test_scheduler_sees_readable_names(client: Client) -> None:
    with get_task_stream(client=client) as stream:
        list(run_parts(number_plus_one, PARTS, lambda: client, step="audit", run="nightly"))
    assert {task["key"].rsplit("-", 1)[0] for task in stream.data} == {
        f"audit-block-{number:05d}" for number in range(4)
    }
