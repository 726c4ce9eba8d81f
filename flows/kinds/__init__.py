"""The kinds of labels, as a training goes about them; what is reported of each is in
`flows.report.kinds`."""

from flows.kinds.base import LabeledGraph, Labels
from flows.kinds.sets import CandidateSets
from flows.kinds.single import SingleLabels
from storage.sources.base import Source

__all__ = ["LabeledGraph", "Labels", "labels_of"]


def labels_of(source: Source) -> Labels:
    """The kind of a source's labels."""
    return SingleLabels() if source.candidates is None else CandidateSets()
