"""Parts of a step in this process and on a cluster; failures counted in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from flows.engine.parts import Part, run_parts


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def do(folder: Path, failures: dict[str, int], part: Part) -> str:
    """Fail the first times a part is tried; each try leaves a file."""
    tries = len(list(folder.glob(f"{part.name}.*")))
    (folder / f"{part.name}.{tries}").touch()
    if tries < failures.get(part.name, 0):
        raise RuntimeError(f"{part.name} failed")
    return f"{part.name}={part.args.get('value')}"


def tries(folder: Path, name: str) -> int:
    return len(list(folder.glob(f"{name}.*")))


PARTS = [Part(f"p{i}", {"value": i}) for i in range(12)]
RESULTS = [f"p{i}={i}" for i in range(12)]

Do = Callable[[Part], str]


def test_parts_run_here_in_order_without_a_cluster(tmp_path: Path) -> None:
    assert list(run_parts(partial(do, tmp_path, {}), PARTS, lambda: None, step="s")) == RESULTS


def test_parts_here_are_lazy(tmp_path: Path) -> None:
    results = run_parts(partial(do, tmp_path, {}), PARTS, lambda: None, step="s")
    next(results)
    assert len(list(tmp_path.iterdir())) == 1


def test_failure_here_is_raised_at_once(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="p3 failed"):
        list(run_parts(partial(do, tmp_path, {"p3": 9}), PARTS, lambda: None, step="s"))
    assert tries(tmp_path, "p3") == 1
    assert tries(tmp_path, "p4") == 0


def test_no_parts_have_no_results(client: Client) -> None:
    assert list(run_parts(str, [], lambda: client, step="s")) == []


def test_cluster_does_every_part_once(client: Client, tmp_path: Path) -> None:
    results = run_parts(partial(do, tmp_path, {}), PARTS, lambda: client, step="s")
    assert sorted(results) == sorted(RESULTS)
    assert len(list(tmp_path.iterdir())) == 12


def test_cluster_that_becomes_ready_takes_the_rest(client: Client, tmp_path: Path) -> None:
    asked = iter([None, None, client])
    results = run_parts(partial(do, tmp_path, {}), PARTS, lambda: next(asked), step="s")
    assert sorted(results) == sorted(RESULTS)
    assert next(asked, None) is None


def test_part_that_fails_twice_succeeds_the_third_time(client: Client, tmp_path: Path) -> None:
    results = run_parts(partial(do, tmp_path, {"p5": 2}), PARTS, lambda: client, step="s")
    assert sorted(results) == sorted(RESULTS)
    assert tries(tmp_path, "p5") == 3


def test_part_that_always_fails_is_tried_three_times(client: Client, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="p5 failed"):
        list(run_parts(partial(do, tmp_path, {"p5": 99}), PARTS, lambda: client, step="s"))
    assert tries(tmp_path, "p5") == 3


def test_parts_of_an_earlier_step_of_that_name_are_not_mistaken(
    client: Client, tmp_path: Path
) -> None:
    for _ in range(2):
        list(run_parts(partial(do, tmp_path, {}), PARTS[:1], lambda: client, step="s"))
    assert tries(tmp_path, "p0") == 2


def test_nothing_is_left_on_the_cluster_after_a_failure(client: Client, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        list(run_parts(partial(do, tmp_path, {"p0": 99}), PARTS, lambda: client, step="s"))
    assert not client.futures
