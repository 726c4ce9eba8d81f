"""Names of steps that other rooms look up, and of the attempts at a graph."""

from __future__ import annotations

from collections.abc import Iterable

PARTITION = "partition"
ROUTE = "route"
BLOCKS = "blocks"
NEIGHBORS = "neighbors"
GRAPH = "graph"
AUDIT = "audit"
WIDENED = "widened"


def of_attempt(step: str, attempt: int) -> str:
    """A step of one attempt at the graph: `audit`, then `audit-1`."""
    return f"{step}-{attempt}" if attempt else step


def last_attempt(step: str, steps: Iterable[str]) -> str | None:
    """The step's name in the last attempt that has records; None where none has."""
    tries = [name for name in steps if name == step or name.startswith(f"{step}-")]
    numbered = [name for name in tries if name == step or name[len(step) + 1 :].isdigit()]
    return max(numbered, key=lambda name: (len(name), name), default=None)
