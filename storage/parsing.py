"""JSON from anywhere, also from where it was damaged or made to do harm."""

import json
from typing import Any


def parsed(content: bytes) -> Any:
    """The value of a JSON document; ValueError for whatever else the content may be."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
