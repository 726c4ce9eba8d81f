"""Which protocols an address may use: a submitted address decides what code opens it."""

from __future__ import annotations

import os

from fsspec.core import split_protocol
from fsspec.registry import known_implementations

from storage.errors import InputError

STORES = frozenset({"file", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols of what is read and written."""
SOURCES = STORES | {"http", "https"}
"""Protocols of what is only read."""
LONGEST_NAME = 255
"""Bytes of the name of a file or folder, on whatever disk."""
MORE = "KNNOISE_PROTOCOLS"
"""Environment variable with further protocols, separated by commas."""


def check_name(address: str) -> None:
    """Raise `InputError` for what can be no path or URL, whoever opens it."""
    if "\0" in address:
        raise InputError(f"{address!r}: a path cannot hold a zero byte; check it")
    if "://" in address:
        return
    if "::" in address and address.partition("::")[0] not in known_implementations:
        raise InputError(f"{address}: '::' joins addresses and is in no name; name it otherwise")
    if max(len(os.fsencode(name)) for name in address.split("/")) > LONGEST_NAME:
        raise InputError(
            f"{address[:80]}…: no file or folder has a name of more than {LONGEST_NAME} bytes; "
            "name it otherwise"
        )


def check_address(address: str, *, to_read: bool = False) -> None:
    """Raise `InputError` if a path or URL uses a protocol that is not allowed, or cannot be one.

    Every link of a chain (`simplecache::s3://...`) counts. Called before fsspec sees the address.
    `to_read`: the address is of a source, which is never written.
    """
    check_name(address)
    allowed = set(SOURCES if to_read else STORES)
    allowed |= {name.strip() for name in os.environ.get(MORE, "").split(",")} - {""}
    for protocol in _protocols(address):
        if protocol not in allowed:
            raise InputError(
                f"{address}: the protocol {protocol} is not allowed here, only "
                f"{', '.join(sorted(allowed))}; if you trust it, name it in {MORE} (operations.md)"
            )


def _protocols(address: str) -> list[str]:
    """The protocol of each link of an address, as fsspec would take it."""
    links = address.split("::")
    found = [split_protocol(link)[0] for link in links]
    if len(links) == 1:
        return [found[0] or "file"]
    return [protocol or link for protocol, link in zip(found, links, strict=True)]
