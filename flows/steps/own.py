"""What a rule's own pass over the graph comes to."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.methods.rknn import FoldScores
from pipeline.noise.rates import NoiseRates


@dataclass(frozen=True)
class OwnRates:
    """k and the rates, chosen a rule's own way, and the evidence for the report."""

    k: int
    rates: NoiseRates
    """Their method is the rule's name."""
    folds: FoldScores | None = None
