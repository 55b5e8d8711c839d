"""Certificates of an authority made on the spot, as PEM and PKCS12 files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.serialization import pkcs12

PASSWORD = "changeit"


class Authority:
    """Issues certificates below a folder; ``pem`` is what others must trust."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.pem = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.pem))
        self.p12 = folder / f"{name}.p12"
        authority = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        self.p12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                None, None, None, [authority], s.BestAvailableEncryption(PASSWORD.encode())
            )
        )

    def issue(self, name: str, *identities: str, expired: bool = False) -> Path:
        """A PEM file of a key (PKCS 8, which ZooKeeper wants) and its certificate.

        Args:
            name: of the file, and the certificate's common name.
            identities: host names and addresses it is valid for; none: of a client.
            expired: whether it is valid no more.
        """
        now = datetime.now(UTC)
        leaf = self._ca.issue_cert(
            *(identities or ("client.invalid",)),
            common_name=name,
            not_before=now - timedelta(days=2),
            not_after=now - timedelta(days=1) if expired else now + timedelta(days=2),
        )
        key = s.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        chain = b"".join(one.bytes() for one in leaf.cert_chain_pems)
        path = self._folder / f"{name}.pem"
        path.write_bytes(pkcs8 + chain)
        return path

    @staticmethod
    def as_pkcs12(pem: Path) -> Path:
        """The same key and certificate as a PKCS12 store with :data:`PASSWORD`."""
        data = pem.read_bytes()
        key = s.load_pem_private_key(data, None)
        first, *more = x509.load_pem_x509_certificates(data)
        path = pem.with_suffix(".p12")
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                pem.stem.encode(),
                key,  # type: ignore[arg-type]  # of the kinds that trustme makes
                first,
                more,
                s.BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        return path
