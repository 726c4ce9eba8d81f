"""How far a run is: which steps are done, what is damaged, what comes next."""

from dataclasses import dataclass

from flows.report.review import WANTED, batch_rows
from flows.steps.sets.stages import check_stages, stages
from storage.errors import StorageError, amount
from storage.runs.run import Run, lasting
from storage.version import FORMAT_VERSION, OLDEST_READ

SHOWN = 5
"""Part names listed before the rest is only counted."""


@dataclass(frozen=True)
class StepState:
    """Number of parts done and planned, and the names of those missing or damaged."""

    done: int
    planned: int
    missing: list[str]
    damaged: list[str]


@dataclass(frozen=True)
class RunState:
    """How far a run is."""

    run: str
    finished: bool
    """Whether the report, or what was bought, is there and nothing is missing or damaged."""
    damage: str | None
    """What is damaged and the remedy in one line; None for a run that is whole or under way."""
    n_wanted: int
    """Labels that were asked for last, where not all are given."""
    steps: dict[str, StepState]
    version: str
    """Of the knnoise that began it."""
    older: str | None
    """What is said where that is of an earlier format, or the run is no training; None where
    `train` goes on with it."""


def status(path: str) -> RunState:
    """State of a run, from its ledger; every committed byte is checked."""
    run = Run.of(path)
    made = run.config(OLDEST_READ)
    done = run.ledger.get("report", "all") is not None
    steps = {
        f"{stage.location.name.rsplit('/', 1)[-1]}/{step}": state
        for stage in stages(run)
        for step, state in _steps(stage, done).items()
    }
    steps |= _steps(run, done)
    whole = not any(state.missing or state.damaged for state in steps.values())
    damage = _damage(run, steps)
    is_there = "report" in steps or run.location.exists("labels.parquet")
    n_wanted = len(batch_rows(run))
    finished = whole and damage is None and is_there and not n_wanted
    of_this = made["format_version"] == FORMAT_VERSION
    older = run.bought() if of_this else str(run.other_version(made))
    by = made.get("versions", {}).get("knnoise", "?")
    return RunState(run.location.name, finished, damage, n_wanted, steps, by, older)


def _steps(run: Run, finished: bool) -> dict[str, StepState]:
    """Parts by step, from the ledger of a run or of a stage below it; of a run that is finished
    only files that last count."""
    ledger, plans = run.ledger, run.ledger.plans()
    steps = {}
    among = lasting if finished else lambda key: True
    for step in [*plans, *(step for step in ledger.steps() if step not in plans)]:
        parts = ledger.parts(step)
        records = [record for record in parts.values() if record is not None]
        damaged = [record.part for record, _ in ledger.damaged(records, among)]
        done = len(records) - len(damaged)
        damaged += [part for part, record in parts.items() if record is None]
        missing = [part for part in plans.get(step, []) if part not in parts]
        planned = max(len(plans.get(step, [])), len(records))
        steps[step] = StepState(done, planned, missing, damaged)
    return steps


def _damage(run: Run, steps: dict[str, StepState]) -> str | None:
    """What is damaged, and the remedy; parts that are missing count if the run was finished."""
    was_finished = run.was_finished()
    parts = [
        f"{step} {part}"
        for step, state in steps.items()
        for part in state.damaged + (state.missing if was_finished else [])
    ]
    if parts:
        more = f" and {len(parts) - 1:,} more parts" if len(parts) > 1 else ""
        return (
            f"{run.location.name}: {parts[0]}{more} damaged or missing; run train again to repair"
        )
    if not was_finished:
        return None
    try:
        run.check(lambda key: False)
        check_stages(run, whole=False)
    except StorageError as error:
        return str(error)
    return None


def status_text(state: RunState) -> str:
    """The state as a person reads it."""
    width = max((len(step) for step in state.steps), default=0)
    finished = "finished" if state.finished else "not finished"
    lines = [f"{state.run}: {finished}, by knnoise {state.version}"]
    for name, step in state.steps.items():
        line = f"  {name:<{width}}  {step.done:,} of {step.planned:,} parts"
        for what, parts in (("missing", step.missing), ("damaged", step.damaged)):
            if parts:
                more = f" and {len(parts) - SHOWN:,} more" if len(parts) > SHOWN else ""
                line += f"; {what}: {', '.join(parts[:SHOWN])}{more}"
        lines.append(line)
    if state.n_wanted:
        lines.append(
            f"{amount(state.n_wanted, 'label')} asked for last, not all of them given: run the "
            f"same command again, with {WANTED} filled in where people give them"
        )
    if state.older is not None:
        lines.append(state.older)
    elif not state.finished:
        lines.append("run the same command again to resume")
    return "\n".join(lines) + "\n"
