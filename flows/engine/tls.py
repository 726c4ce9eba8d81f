"""Encryption of what goes between this process and a Dask cluster given by address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flows.options.params import Compute
from storage.errors import InputError

if TYPE_CHECKING:
    from distributed import Security

_CLOSED = ("tls", "wss", "inproc")
"""Schemes of Dask addresses that nobody on the network can read or write."""
_HELP = "see Encryption in docs/use/operations.md"


@dataclass(frozen=True)
class Tls:
    """PEM files by which this process and the scheduler know each other.

    Where they are not given, Dask's own configuration holds: `distributed.comm.tls` in its files,
    or DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT and ...__CLIENT__KEY.
    """

    ca: str | None = None
    """Certificate of the authority that signed those of the cluster."""
    cert: str | None = None
    """This process's certificate."""
    key: str | None = None
    """Its private key, where the file of the certificate does not hold it."""

    @classmethod
    def of(cls, compute: Compute) -> Tls:
        return cls(compute.tls_ca, compute.tls_cert, compute.tls_key)

    def check(self) -> None:
        """Raise `InputError` for a file that is missing or was forgotten."""
        if (self.ca is None) != (self.cert is None) or (self.key is not None and self.cert is None):
            raise InputError("--tls-ca, --tls-cert and --tls-key belong together: give all or none")
        for option, name in (("ca", self.ca), ("cert", self.cert), ("key", self.key)):
            if name is not None and not Path(name).is_file():
                raise InputError(f"--tls-{option} {name}: no such file; {_HELP}")

    def security(self) -> Security | None:
        """What a Dask client takes; None leaves it to Dask's configuration."""
        if self.ca is None:
            return None
        from distributed import Security

        return Security(
            require_encryption=True,
            tls_ca_file=self.ca,
            tls_client_cert=self.cert,
            tls_client_key=self.key,
        )


def check_encrypted(address: str) -> None:
    """Refuse an address whose traffic would leave this host in the clear.

    Whoever reads or changes it on the way has the data, and runs code on the workers. Dask's
    setting `distributed.comm.require-encryption: false` allows it, for a network one trusts.

    Raises
    ------
    InputError
        the address is neither encrypted nor of this host.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in _CLOSED or _is_loopback(parts.hostname or ""):
        return
    import dask

    if dask.config.get("distributed.comm.require-encryption", None) is not False:
        raise InputError(
            f"{address} is not encrypted, and anyone on the way could read the data or run code; "
            f"use a tls:// address, or set DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=false on a "
            f"network you trust; {_HELP}"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
