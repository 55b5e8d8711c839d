"""Reads until when a certificate is valid, which OpenSSL's error does not say."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Final

from emulator.net.distinguished_name import der_values

_END: Final = "-----END CERTIFICATE-----"
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0


def not_after(pem: str) -> datetime:
    """When the first certificate of a PEM text ends.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    begin = pem.find("-----BEGIN CERTIFICATE-----")
    end = pem.find(_END, begin)
    if begin < 0 or end < 0:
        raise ValueError("no certificate in it")
    der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END)])
    try:
        (_, certificate), *_ = der_values(der)
        (_, signed), *_ = der_values(certificate)
        fields = [value for kind, value in der_values(signed) if kind != _VERSION]
        _, (kind, when) = der_values(fields[3])  # after serial number, algorithm and issuer
        form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(when.decode(), form).replace(tzinfo=UTC)
    except (IndexError, ValueError) as error:
        raise ValueError(f"a damaged certificate: {error}") from error
