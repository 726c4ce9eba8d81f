"""JSON files that carry a digest of themselves, so that any change of a value shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from storage.parsing import parsed

_DIGEST = "digest"


def seal(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """An object as JSON, with its digest added as the field `digest`."""
    plain = json.loads(json.dumps(content))  # as it will be read
    return json.dumps({**plain, _DIGEST: _digest(plain)}, indent=indent, sort_keys=True).encode()


def unseal(content: bytes | None) -> dict[str, Any] | None:
    """The object without its digest; None where the file is absent, garbled or changed."""
    try:
        found = parsed(content or b"")
        digest = found.pop(_DIGEST)
        return found if digest == _digest(found) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _digest(plain: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16).hexdigest()
