"""What Prefect is told of the flows: retries and time limits of steps, bounds of parameters."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import httpx
import pytest
from prefect import flow
from prefect.task_engine import TaskRunTimeoutError

from flows.engine import under_prefect
from flows.engine.tasks import as_task
from flows.orchestration.run_folders import dated
from flows.score import score
from flows.train import train
from storage import InputError


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_prefect, "BACKOFF_SECONDS", 0.5)


def failing(times: list[float], error: Exception, n: int) -> Any:
    """A step that notes when it is called, and fails the first n times."""

    def call() -> int:
        times.append(time.monotonic())
        if len(times) <= n:
            raise error
        return 1

    return call


@pytest.mark.usefixtures("server")
def test_step_is_tried_again_after_growing_waits() -> None:
    times: list[float] = []

    @flow
    def steps() -> int:
        return as_task("step", failing(times, OSError("network"), 2))

    assert steps() == 1
    assert len(times) == 3
    assert times[1] - times[0] > 0.24  # half a second and a second, spread by up to half
    assert times[2] - times[1] > 0.49


@pytest.mark.usefixtures("server")
def test_bad_input_is_not_tried_again() -> None:
    times: list[float] = []

    @flow
    def steps() -> int:
        return as_task("step", failing(times, InputError("no such file"), 9))

    with pytest.raises(InputError):
        steps()
    assert len(times) == 1


@pytest.mark.timeout(120, method="thread")  # the other method takes the alarm that Prefect needs
@pytest.mark.usefixtures("server")
def test_step_that_hangs_is_stopped() -> None:
    times: list[float] = []

    def hang() -> None:
        times.append(time.monotonic())
        time.sleep(60)

    @flow
    def steps(step_timeout: float) -> None:
        as_task("step", hang)

    with pytest.raises(TaskRunTimeoutError):
        steps(step_timeout=1.0)
    assert len(times) == 3


@pytest.mark.parametrize("made", [train, score])
def test_every_parameter_is_described_and_bounded(made: Any) -> None:
    schema = made.parameters.properties
    assert all(found.get("description") for found in schema.values()), schema
    number = {"minimum": 0, "maximum": 1024, "type": "integer"}
    assert schema["workers"]["anyOf"][0] == number
    assert schema["step_timeout"]["exclusiveMinimum"] == 0


def test_bounds_of_a_training() -> None:
    schema = train.parameters.properties
    assert schema["k"]["anyOf"][0]["minimum"] == 5
    assert schema["noise"]["enum"] == ["crossfit", "minmax"]
    assert schema["target_recall"]["maximum"] == 1
    assert train.parameters.required == ["source", "run"]


def test_folder_of_a_date() -> None:
    assert re.fullmatch(r"runs/pool-\d{4}-W\d\d", dated("runs/pool-{date:%G-W%V}"))
    assert dated("runs/{other}") == "runs/{other}"
    with pytest.raises(InputError, match="fill in the date"):
        dated("runs/{date.nothing}-{0}")


def test_a_server_that_is_away_is_told_of_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each event that does not reach it, with all that is in it, nor with a trace."""
    told: list[logging.LogRecord] = []
    handler = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger("prefect"), "handlers", [handler])
    under_prefect.tame_logs()
    for name in ("prefect.events.clients", "prefect._internal.concurrency"):
        monkeypatch.setattr(logging.getLogger(name), "callHandlers", told.append)
    for number in range(3):
        logging.getLogger("prefect.events.clients").warning("Unable to connect to %r.", "ws://a")
        logging.getLogger("prefect._internal.concurrency").error("failed to process %r", number)
    assert [record.getMessage() for record in told] == ["Unable to connect to 'ws://a'."]
    for error, traced in ((httpx.ConnectError("refused"), False), (ValueError("ours"), True)):
        record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(error), error, None)})
        assert handler.filter(record)
        assert bool(record.exc_text) == traced
