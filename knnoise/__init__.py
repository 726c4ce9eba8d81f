"""Learn from wrongly labeled rows: `train`, `score`, `open_run`, `check`, `clean`, `review`,
`certify`, `acquire`, which take the extra `flows`, and for scikit-learn
`RobustKNeighborsClassifier` and `CleanedClassifier`.

Nothing is imported before it is used.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

OURS = ("flows", "pipeline", "storage")


def check_shadows() -> None:
    """Raise `ImportError` where another package of that name would be imported instead of ours."""
    home = Path(__file__).resolve().parent.parent
    for name in OURS:
        spec = find_spec(name)
        places = list(spec.submodule_search_locations or []) if spec else []
        if spec and spec.origin and not places:
            places = [spec.origin]
        if any(Path(place).resolve() == home / name for place in places):
            continue
        problem = f"{places[0]} hides it" if places else "it is not there"
        raise ImportError(
            f"knnoise needs its package {name!r}, and {problem}: rename that, or start Python in "
            "another folder"
        )


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
