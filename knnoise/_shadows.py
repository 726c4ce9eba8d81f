"""Is one of our packages hidden by a folder or module of the same name?"""

from importlib.util import find_spec
from pathlib import Path

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
