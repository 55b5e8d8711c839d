"""PKCS12 stores for OpenSSL; needs the package ``cryptography`` (extra ``tls``)."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.serialization import pkcs12


def key_and_chain(data: bytes, password: str | None, passphrase: str) -> bytes:
    """The private key, encrypted with ``passphrase``, and its certificates as PEM.

    Raises:
        ValueError: the password is wrong, or there is no key with a certificate.
    """
    found = _load(data, password)
    if found.key is None or found.cert is None:
        raise ValueError("no private key with its certificate in it")
    key = found.key.private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(passphrase.encode())
    )
    chain = (found.cert, *found.additional_certs)
    return key + b"".join(one.certificate.public_bytes(s.Encoding.PEM) for one in chain)


def certificates(data: bytes, password: str | None) -> bytes:
    """Every certificate in the store, as concatenated DER.

    Raises:
        ValueError: the password is wrong, or there is none.
    """
    found = _load(data, password)
    every = (*found.additional_certs, *((found.cert,) if found.cert else ()))
    if not every:
        raise ValueError("no certificate in it")
    return b"".join(one.certificate.public_bytes(s.Encoding.DER) for one in every)


def _load(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    return pkcs12.load_pkcs12(data, None if password is None else password.encode())
