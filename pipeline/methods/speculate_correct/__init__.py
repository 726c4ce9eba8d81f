"""Error bounds of k-nearest-neighbor classifiers without held-out rows (Bax, Weng & Tian 2019)."""

from pipeline.methods.speculate_correct.bound import (
    Design,
    Epsilon,
    Inequality,
    best_design,
    epsilon,
)
from pipeline.methods.speculate_correct.certificate import (
    Certificate,
    certify,
    clean_loss,
    clean_range,
    error_loss,
    threshold_rules,
)
from pipeline.methods.speculate_correct.sampling import (
    Counts,
    Rule,
    at_least,
    majority,
    packed,
    sample_block,
    samples_per_row,
)

__all__ = [
    "Certificate",
    "Counts",
    "Design",
    "Epsilon",
    "Inequality",
    "Rule",
    "at_least",
    "best_design",
    "certify",
    "clean_loss",
    "clean_range",
    "epsilon",
    "error_loss",
    "majority",
    "packed",
    "sample_block",
    "samples_per_row",
    "threshold_rules",
]
