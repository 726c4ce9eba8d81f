"""Which protocols an address may use: a submitted address decides what code opens it."""

from __future__ import annotations

import os

from fsspec.core import split_protocol

from storage.errors import InputError

STORES = frozenset({"file", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols of what is read and written."""
SOURCES = STORES | {"http", "https"}
"""Protocols of what is only read."""
MORE = "KNNOISE_PROTOCOLS"
"""Environment variable with further protocols, separated by commas."""


def check_address(address: str, *, to_read: bool = False) -> None:
    """Raise `InputError` if a path or URL uses a protocol that is not allowed, or cannot be one.

    Every link of a chain (`simplecache::s3://...`) counts. Called before fsspec sees the address.
    `to_read`: the address is of a source, which is never written.
    """
    if "\0" in address:
        raise InputError(f"{address!r}: a path cannot hold a zero byte; check it")
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
