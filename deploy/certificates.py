"""Certificates for one installation: an authority, and one certificate signed by it that the Dask
scheduler, its workers and clients, and the proxy before the Prefect server share.

    python deploy/certificates.py DIR [--host NAME]... [--days N]

writes ca.pem, cert.pem and key.pem. Dask trusts whoever shows a certificate of this authority, so
the authority's own key is not kept, and key.pem is what has to stay secret. Where DIR has
certificates that hold for another 30 days, nothing is done; if they are not for all hosts, that is
an error, as whoever uses them has to start again with new ones.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

RENEW_DAYS = 30
_SIGNS_CERTIFICATES = (*[False] * 5, True, *[False] * 3)
"""Of the nine uses of a key."""


def main() -> None:
    """Write the files, unless there are good ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--host", action="append", default=["localhost"], metavar="NAME")
    parser.add_argument("--days", type=int, default=365, metavar="N")
    args = parser.parse_args()
    cert = args.dir / "cert.pem"
    if days_left(cert) > RENEW_DAYS:
        if other := sorted({*args.host} - {*hosts_of(cert)}):
            sys.exit(
                f"{cert}: is not for {', '.join(other)}; remove it, run again, and start all that "
                "uses it again"
            )
        print(f"{args.dir}: certificates are there and hold")
        return
    issue(args.dir, args.host, args.days)
    print(f"{args.dir}: new certificates for {', '.join(args.host)}, {args.days} days")


def days_left(cert: Path) -> int:
    """Days a certificate still holds; 0 where there is none."""
    if not cert.exists():
        return 0
    end = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    return max(0, (end - _now()).days)


def hosts_of(cert: Path) -> list[str]:
    """Names and addresses that a certificate is for."""
    found = x509.load_pem_x509_certificate(cert.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def issue(folder: Path, hosts: list[str], days: int) -> None:
    """A new authority, and a certificate for some hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, own = _name("knnoise authority"), _name("knnoise")
    ca = (
        _certificate(issuer, issuer, authority, authority, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(*_SIGNS_CERTIFICATES), critical=True)
    )
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    cert = (
        _certificate(own, issuer, key, authority, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name, content, mode in (
        ("key.pem", private, 0o600),
        ("ca.pem", ca.sign(authority, hashes.SHA256()).public_bytes(pem), 0o644),
        ("cert.pem", cert.sign(authority, hashes.SHA256()).public_bytes(pem), 0o644),
    ):
        _write(folder / name, content, mode)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    """With the identifiers of keys without which Python 3.13 trusts none."""
    own, by = key.public_key(), authority.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - datetime.timedelta(minutes=5))
        .not_valid_after(_now() + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _write(file: Path, content: bytes, mode: int) -> None:
    """A file that nobody else could read meanwhile."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as sink:
        sink.write(content)


if __name__ == "__main__":
    main()
