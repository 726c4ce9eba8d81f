"""Streams of hashes of row numbers, one for each thing that is drawn at random: what one draws says
nothing of what another does."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Stream(IntEnum):
    """Number of a stream. Another number draws other rows: results change."""

    PARTITION = 1
    """The sample that a metric, centers and segments are found in, and that label qualities are
    fitted on."""
    ANCHORS = 2
    """Rows whose exact neighbors are searched; the audited queries of a scoring."""
    CODING = 3
    """Rows that medians and categories are learned from."""
    TOP_ROWS = 4
    """Which of equal rows a report shows."""
    FOLDS = 5
    """Folds of RkNN."""
    FILE_ORDER = 8
    """Rows whose neighbors tell whether the order of the file matters."""
    CHOICE = 9
    """Rows of candidate sets on which c1 and T are chosen."""
    REVIEW_USEFUL = 10
    """Order of equally useful rows of a review."""
    REVIEW_SUSPECTS = 11
    """Suspects of a review drawn at random."""
    REVIEW_ROWS = 12
    """Rows of a review drawn at random."""
    ACQUIRE = 13
    """Rows whose labels are bought at random, in this order."""
