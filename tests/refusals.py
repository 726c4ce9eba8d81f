"""Sources that are refused, and files to make them of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import InputError
from storage.sources.opening import open_source


def refused(*parts: str, **wanted: Any) -> str:
    """The message of the error that opening and reading raises; it names all `parts`."""
    with pytest.raises(InputError) as caught:
        for _ in open_source(**wanted).chunks(2):
            pass
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


def text(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def saved(tmp_path: Path, array: np.ndarray, name: str = "x.npy") -> Path:
    np.save(tmp_path / name, array, allow_pickle=True)
    return tmp_path / name
