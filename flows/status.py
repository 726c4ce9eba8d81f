"""How far a run is: which steps are done, what is damaged, what comes next."""

from __future__ import annotations

from typing import Any

from storage.location import Location
from storage.run import Run

SHOWN = 5
"""Part names listed before the rest is only counted."""


def status(path: str) -> dict[str, Any]:
    """State of a run, from its ledger; every committed byte is checked.

    Returns
    -------
    finished : whether the report is there and nothing is missing or damaged
    steps : by step, number of parts done and planned, names of parts missing or damaged
    """
    run = Run(Location.of(path))
    run.config()
    ledger, plans = run.ledger, run.ledger.plans()
    steps = {}
    for step in [*plans, *(step for step in ledger.steps() if step not in plans)]:
        records = ledger.records(step)
        damaged = [record.part for record in ledger.damaged(records.values())]
        missing = [part for part in plans.get(step, []) if part not in records]
        steps[step] = {
            "done": len(records) - len(damaged),
            "planned": max(len(plans.get(step, [])), len(records)),
            "missing": missing,
            "damaged": damaged,
        }
    whole = not any(found["missing"] or found["damaged"] for found in steps.values())
    finished = whole and run.location.exists("report.json")
    return {"run": run.location.url, "finished": finished, "steps": steps}


def status_text(found: dict[str, Any]) -> str:
    """The state as a person reads it."""
    width = max((len(step) for step in found["steps"]), default=0)
    lines = [f"{found['run']}: {'finished' if found['finished'] else 'not finished'}"]
    for step, state in found["steps"].items():
        line = f"  {step:<{width}}  {state['done']:,} of {state['planned']:,} parts"
        for what in ("missing", "damaged"):
            if state[what]:
                more = f" and {len(state[what]) - SHOWN:,} more" if len(state[what]) > SHOWN else ""
                line += f"; {what}: {', '.join(state[what][:SHOWN])}{more}"
        lines.append(line)
    if not found["finished"]:
        lines.append("run the same train command again to resume")
    return "\n".join(lines) + "\n"
