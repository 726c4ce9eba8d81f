"""Results as JSON lines, one file a study, one line a case: a rerun does what is missing.

A line carries a fingerprint of the kernels it was made with; lines of other kernels do not count.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pipeline

RATES = ("noise/asymptotes", "noise/extrema", "noise/rates")
TESTED = ("noise/regions", "noise/cores", "noise/copies")
"""What a training asks of features and distances beside the rates."""
MATRIX = ("noise/transition", "noise/transition_fit")
QUALITY = (
    "blocks/logits",
    *(f"decision/{m}" for m in ("class_votes", "odds", "quality", "suspects", "tempering")),
    *("decision/where", "decision/whose"),
)
DECISION = (*RATES, "decision/threshold")
KERNELS = {
    "rates": (*RATES, *TESTED),
    "coverage": (*RATES, *TESTED),
    "accuracy": (*DECISION, *TESTED, "decision/choose_k", "decision/votes"),
    "rare": (*RATES, "decision/choose_k", "decision/votes"),
    "rare-many": (*RATES, *MATRIX, "decision/tempering", "decision/class_rule"),
    "plateau": DECISION,
    "square": (*RATES, "methods/rknn"),
    "gao": ("methods/rknn",),
    "gao-ours": DECISION,
    "multiclass": (*RATES, *MATRIX, *TESTED),
    "suspects": (*RATES, *MATRIX, *TESTED, "noise/simplex", *QUALITY),
    "metric": ("blocks/metric", "blocks/curves", *DECISION, *TESTED, *MATRIX, *QUALITY),
    "cleaning": ("cleaned", "decision/soft", "blocks/metric", *RATES, *MATRIX, *QUALITY),
    "weighed": (*DECISION, *MATRIX, *QUALITY, "decision/class_rule"),
    "verdicts": RATES,
    "uneven": (*RATES, "noise/regions", "noise/cores"),
    "cost": (*RATES, "blocks/cost", "graph/descent"),
    "certificates": ("methods/speculate_correct",),
    "acquire": ("methods/growing_net", "methods/bought_labels"),
    "review": (*DECISION, "decision/review"),
    "groups": (*DECISION, "noise/group_cells", "noise/group_rates", "noise/groups"),
    "annotators": tuple(f"noise/annotator{m}" for m in ("s", "_kernels", "_matrices", "_verdicts")),
    "partial": ("methods/partial_labels", "methods/partial_features"),
}
"""The modules of `pipeline` each study rests on, beside the exact search."""


def fingerprint(study: str) -> str:
    """CRC-32 of the sources of a study's kernels."""
    folder = Path(pipeline.__file__).parent
    sources = b"".join((folder / f"{name}.py").read_bytes() for name in KERNELS[study])
    return f"{zlib.crc32(sources):08x}"


class Results:
    """The finished cases of one study, by the kernels as they are now."""

    def __init__(self, folder: Path, study: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{study}.jsonl"
        self.kernels = fingerprint(study)
        text = self.path.read_text() if self.path.exists() else ""
        if text and not text.endswith("\n"):
            with self.path.open("a") as file:
                file.write("\n")
        lines = text.splitlines()
        found = [row for row in map(_parse, lines) if row.get("kernels") == self.kernels]
        self.rows: dict[str, dict[str, Any]] = {row["case"]: row for row in found}
        if len(lines) != len(found):
            print(f"{study}: {len(lines) - len(found)} cases by other kernels are left out")

    def __contains__(self, case: str) -> bool:
        return case in self.rows

    def add(self, case: str, row: dict[str, Any]) -> None:
        """Append one finished case."""
        self.rows[case] = {"case": case, "kernels": self.kernels, **row}
        with self.path.open("a") as file:
            file.write(json.dumps(self.rows[case]) + "\n")


def _parse(line: str) -> dict[str, Any]:
    """A line; empty where a killed run left half of one."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}
