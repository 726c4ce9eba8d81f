"""Messages without secrets: what is logged or shown passes through here."""

from __future__ import annotations

import os
import re

HIDDEN = "***"
_NAMES = (
    r"[\w-]*(?:password|passwd|passphrase|secret|token|credential|authorization|signature"
    r"|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|connection[_-]?string"
    r"|auth[_-]?string)[\w-]*"
)
_SECRET_NAME = re.compile(_NAMES, re.I)
_SCHEME = r"\b[a-z][\w+.-]*://"
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_RULES = (
    # user:password@ of a URL; a password may hold slashes
    (re.compile(rf"({_SCHEME})(?:[^/\s'\"]*|[^/\s:'\"]+:[^\s'\"]*)@", re.I), rf"\1{HIDDEN}@"),
    # query string and fragment of a URL
    (re.compile(rf"({_SCHEME}[^\s'\"<>?#]*)[?#][^\s'\"<>]*", re.I), r"\1"),
    # Authorization: Bearer …
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.I), rf"\1 {HIDDEN}"),
    # name=value, name: value, "name": "value"
    (re.compile(rf"\b({_NAMES}['\"]?\s*[:=]\s*)(?:{_QUOTED}|[^\s'\",;&)}}\]]+)", re.I), r"\1***"),
    # options of a store, as Python or JSON writes them
    (re.compile(rf"((['\"])(?:key|sas|pwd|auth)\2\s*:\s*)(?:{_QUOTED})", re.I), r"\1***"),
)
_SHORTEST = 6


def redacted(text: str) -> str:
    """The text without user names and passwords, query strings and fragments of URLs, values of
    settings named like a secret, and values of such environment variables of this process.
    """
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET_NAME.fullmatch(name):
            text = text.replace(value, HIDDEN)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
