"""Core seconds and bytes that searches, trainings and scorings will take, as predicted; and the
builder of lists that follows from them."""

from __future__ import annotations

from pipeline.blocks.sampling import MOST_ANCHORS

BUILDERS = ("auto", "join", "pynndescent", "exact")
_EXACT_PAIR_NS = (2.0, 0.06)
"""Cost of exact search per pair of rows: constant and per feature, ns·core (measured)."""
_EXACT_SECONDS = 2.0
"""Core seconds of exact search below which approximate lists save too little to matter."""
_READ_SECONDS, _WALK_SECONDS = 5e-8, 7e-7
"""Core seconds per feature: of a row that is read and searched for a few queries, and of a walk
(measured, 32 and 64 features; six times that among Gaussians)."""
_ROW_SECONDS = (1.2e-5, 6e-7)
"""Core seconds of a row in all: constant and per feature (measured, 32 to 128 features, k = 30)."""
_PASS_SECONDS = 2e-5
"""Core seconds of a row in a pass over a finished graph (measured, k = 50)."""
_ROW_BYTES = (8, 40)
"""Bytes of a row while lists are made: per feature, and per place of its list (measured)."""


def lists_bytes(n_rows: int, n_features: int, k: int) -> int:
    """About how many bytes `build_lists` takes by local joins, rows and lists included."""
    return n_rows * (_ROW_BYTES[0] * n_features + _ROW_BYTES[1] * k)


def choose_builder(builder: str, n_rows: int, n_features: int) -> str:
    """The builder that `auto` stands for: exact search where it costs little, or no more than
    anchors do, which are all rows then."""
    if builder != "auto":
        return builder
    cheap = exact_seconds(n_rows, n_features) <= _EXACT_SECONDS
    return "exact" if cheap or n_rows <= MOST_ANCHORS else "join"


def exact_seconds(n_rows: int, n_features: int) -> float:
    """About how many core seconds exact search of a whole pool takes."""
    return n_rows**2 * (_EXACT_PAIR_NS[0] + _EXACT_PAIR_NS[1] * n_features) * 1e-9


def training_seconds(builder: str, n_rows: int, n_features: int) -> float:
    """About how many core seconds a whole training takes."""
    exact = choose_builder(builder, n_rows, n_features) == "exact"
    lists = exact_seconds(n_rows, n_features) if exact else 0.0
    return lists + n_rows * (_ROW_SECONDS[0] + _ROW_SECONDS[1] * n_features)


def scoring_seconds(
    n_queries: int, n_rows: int, n_features: int, block_rows: float, probes: float, walked: bool
) -> float:
    """About how many core seconds it takes to score queries: blocks are read and audited, then
    walked or searched exactly.

    block_rows : rows of a block
    probes : blocks that a query is sent to
    """
    read = n_rows * n_features * _READ_SECONDS
    pair = _EXACT_PAIR_NS[0] + _EXACT_PAIR_NS[1] * n_features
    search = n_features * _WALK_SECONDS if walked else block_rows * pair * 1e-9
    return read + n_queries * probes * search


def pass_seconds(n_rows: int) -> float:
    """About how many core seconds a pass over a finished graph takes."""
    return n_rows * _PASS_SECONDS
