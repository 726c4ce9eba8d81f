"""Text without secrets: what is logged, shown or kept on disk passes through here."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TextIO
from urllib.parse import parse_qsl, quote, unquote

HIDDEN = "***"
_NAMES = (
    r"[\w-]*(?:password|passwd|passphrase|secret|token|credential|authorization|signature"
    r"|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|connection[_-]?string"
    r"|auth[_-]?string)[\w-]*"
)
_SECRET_NAME = re.compile(_NAMES, re.I)
_SCHEME = r"\b[a-z][\w+.-]*://"
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_SPELLING = r"(?:thousands|percent|datetime|boolean|(?:%[A-Za-z][^\w%]*)+)(?![\w%])"
"""How a column of numbers is written, by `--parse`: its name may well be that of a secret."""
_RULES = (
    # user:password@ of a URL; a password may hold slashes, a port is none
    (
        re.compile(rf"({_SCHEME})(?:[^/\s'\"]*|(?![^/\s:]+:\d+/)[^/\s:'\"]+:[^\s'\"]*)@", re.I),
        rf"\1{HIDDEN}@",
    ),
    # query string and fragment of a URL
    (re.compile(rf"({_SCHEME}[^\s'\"<>?#]*)[?#][^\s'\"<>]*", re.I), r"\1"),
    # user:password@host of an address without a scheme
    (re.compile(r"(?<![\w/.-])[\w.+-]*:(?!//)[^\s'\"@/]+@(?=[\w\[])"), f"{HIDDEN}@"),
    # Authorization: Bearer …
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.I), rf"\1 {HIDDEN}"),
    # name=value, name: value
    (
        re.compile(
            rf"\b({_NAMES}(?<!Error)\s*[:=]\s*)(?!{_SPELLING})(?:{_QUOTED}|[^\s'\",;&)}}\]]+)", re.I
        ),
        r"\1***",
    ),
    # "name": "value"; what follows a name in quotes otherwise is said of a column or a label
    (re.compile(rf"\b({_NAMES}['\"]\s*[:=]\s*)(?:{_QUOTED})", re.I), r"\1***"),
    # options of a store, as Python or JSON writes them
    (re.compile(rf"((['\"])(?:key|sas|pwd|auth)\2\s*:\s*)(?:{_QUOTED})", re.I), r"\1***"),
)
_SHORTEST = 6
_URL = re.compile(rf"{_SCHEME}", re.I)
_LINKS = re.compile(rf"::(?={_SCHEME})", re.I)
_USER = re.compile(r"[^/]*@|(?![^/:]+:\d+/)[^/:]+:.*@", re.S)
_QUERY_SECRET = re.compile(rf"{_NAMES}|sig|sas|key|code|auth|pwd", re.I)
_known: set[str] = set()
_full: dict[str, str] = {}


def redacted(text: str) -> str:
    """The text without user names and passwords, query strings and fragments of URLs, values of
    settings named like a secret, values of such environment variables of this process, and the
    secrets of addresses it was given.
    """
    text = without_known(text)
    for name in filter(_is_secret, list(os.environ)):
        value = os.environ.get(name, "")
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None


def redacted_values(value: Any) -> Any:
    """A JSON value whose texts are redacted, and hidden where their key is named like a secret."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if isinstance(inner, str)
            and _SECRET_NAME.fullmatch(str(key))
            and not re.fullmatch(_SPELLING, inner)
            else redacted_values(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted_values(inner) for inner in value]
    return value


def bare(address: str) -> str:
    """An address to keep on disk: a URL without user, password, query and fragment.

    It depends on the address alone; a path is left as it is.
    """
    return "".join(part for part, _ in _parts(address))


def secrets_of(address: str) -> set[str]:
    """Passwords and signatures in a URL, as they are and percent-decoded."""
    plain = {secret for _, secrets in _parts(address) for secret in secrets}
    return {form for secret in plain for form in (secret, unquote(secret), quote(secret, safe=""))}


def remember(address: str) -> str:
    """The address in full, where only its bare form was passed on; its secrets are hidden in all
    text of this process from now on.
    """
    address = _full.get(address, address)
    _known.update(secret for secret in secrets_of(address) if len(secret) >= _SHORTEST)
    return address


def entrust(address: str) -> str:
    """The bare form of an address, which `remember` makes full again in this process."""
    remember(address)
    _full[bare(address)] = address
    return bare(address)


def without_known(text: str) -> str:
    """The text without the secrets of addresses that this process was given; nothing else in it
    is changed."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _parts(address: str) -> list[tuple[str, set[str]]]:
    """(what may be kept, secrets in the rest) of each link of an address."""
    parts = []
    for number, link in enumerate(_LINKS.split(address)):
        scheme = _URL.match(link)
        kept, secrets = link, set[str]()
        if scheme is not None:
            rest = link[scheme.end() :]
            user = _USER.match(rest)
            path, mark, query = rest[user.end() if user else 0 :].partition("?")
            path = path.partition("#")[0] if mark or link.startswith("http") else path
            kept = f"{scheme[0]}{HIDDEN}@{path}" if user else f"{scheme[0]}{path}"
            if user is not None and ":" in user[0]:
                secrets.add(user[0].partition(":")[2][:-1])
            values = parse_qsl(query) if mark else []
            secrets |= {value for name, value in values if _QUERY_SECRET.fullmatch(name)}
        parts.append((f"::{kept}" if number else kept, secrets - {""}))
    return parts


class RedactedStream:
    """A text stream that redacts what is written to it, for people: that nobody sees it any more,
    as their terminal was closed, is no error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(redacted(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
