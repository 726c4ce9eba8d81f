"""Learn from wrongly labeled rows: `train`, `score`, `open_run`, `check`, `clean`, `review`,
`certify`, `acquire`, which take the extra `flows`, and for scikit-learn
`RobustKNeighborsClassifier` and `CleanedClassifier`.

Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knnoise._shadows import check_shadows

if TYPE_CHECKING:
    from knnoise.api import acquire, certify, check, clean, open_run, review, score, train
    from knnoise.result import Cleaned, Scores, Training
    from pipeline.cleaned import CleanedClassifier
    from pipeline.estimator import RobustKNeighborsClassifier
    from storage.version import VERSION as __version__

__all__ = [
    "Cleaned",
    "CleanedClassifier",
    "RobustKNeighborsClassifier",
    "Scores",
    "Training",
    "__version__",
    "acquire",
    "certify",
    "check",
    "clean",
    "open_run",
    "review",
    "score",
    "train",
]

_ALONE = {
    "__version__": "storage.version",
    "CleanedClassifier": "pipeline.cleaned",
    "RobustKNeighborsClassifier": "pipeline.estimator",
}
"""Where names come from that need no extra."""

check_shadows()


def __getattr__(name: str) -> Any:
    """The public names, when they are used."""
    if name not in __all__:
        from storage.errors import did_you_mean

        more = did_you_mean(name, __all__)
        raise AttributeError(f"module 'knnoise' has no attribute {name!r}{more}")
    if name in _ALONE:
        return getattr(import_module(_ALONE[name]), name.replace("__version__", "VERSION"))
    from flows.options.extras import needs

    needs("flows", f"knnoise.{name}")
    results = "Cleaned", "Scores", "Training"
    return getattr(import_module("knnoise.result" if name in results else "knnoise.api"), name)


def __dir__() -> list[str]:
    """What completion shows."""
    return sorted(__all__)
