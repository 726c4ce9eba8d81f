"""An authority and one certificate that it signed, as a Dask cluster wants them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    ca: Path
    cert: Path
    key: Path

    def options(self, ca: str) -> tuple[str, ...]:
        """Command-line options; `ca` is the name of the option for the authority."""
        return (f"--{ca}", str(self.ca), "--tls-cert", str(self.cert), "--tls-key", str(self.key))


def issue(folder: Path) -> Certificates:
    """A new authority in a folder, and a certificate for localhost."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    files = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    pem = serialization.Encoding.PEM
    files.ca.write_bytes(_signed(issuer, issuer, authority, authority, ca=True).public_bytes(pem))
    files.cert.write_bytes(_signed(own, issuer, key, authority, ca=False).public_bytes(pem))
    files.key.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(authority, hashes.SHA256())
    )
