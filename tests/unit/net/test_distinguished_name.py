"""The principal in a certificate, as Java prints it."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid

from emulator.net.distinguished_name import name_of, subject_of

CN = Oid.COMMON_NAME
PLAIN = string.ascii_letters, string.digits, "!$%&'()*-./:?@[]^_`{|}~"
"""Characters that are not escaped."""
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*rdns: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    name = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in rdn])
            for rdn in rdns
        ]
    )
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(CN, "issuer")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


@pytest.mark.parametrize(
    ("rdns", "text"),
    [
        (
            [
                [(Oid.COUNTRY_NAME, "DE")],
                [(Oid.ORGANIZATION_NAME, "Z")],
                [(CN, "a b")],
            ],
            "CN=a b,O=Z,C=DE",
        ),
        (
            [[(CN, 'a,b+c"d\\e<f>g;h=i#j')]],
            'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j',
        ),
        ([[(CN, " a ")]], "CN=\\ a\\ "),
        *(([[(CN, part)]], f"CN={part}") for part in PLAIN),
        ([[(CN, "Jürgen")]], "CN=Jürgen"),
        (
            [
                [(Oid.DOMAIN_COMPONENT, "org")],
                [(Oid.STATE_OR_PROVINCE_NAME, "S"), (Oid.LOCALITY_NAME, "L")],
                [(Oid.ORGANIZATIONAL_UNIT_NAME, "U"), (Oid.USER_ID, "u1")],
            ],
            None,
        ),
        (
            [[(Oid.EMAIL_ADDRESS, "a@b")], [(CN, "x")]],
            "CN=x,1.2.840.113549.1.9.1=#1603614062",
        ),
        ([], ""),
    ],
)
def test_names(rdns: list[list[tuple[x509.ObjectIdentifier, str]]], text: str | None) -> None:
    found = subject_of(certificate(*rdns))
    if text is not None:
        assert found == text
        return
    first, second, third = found.split(",")
    assert set(first.split("+")) == {"OU=U", "UID=u1"}
    assert set(second.split("+")) == {"ST=S", "L=L"}
    assert third == "DC=org"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        # Java reads the bytes of every kind as UTF-8.
        (0x1E, "ab".encode("utf-16-be"), "CN=\\00a\\00b"),
        (0x14, "J\xfcrgen".encode("latin-1"), "CN=J\ufffdrgen"),
        (0x14, "Jürgen".encode(), "CN=Jürgen"),
        (0x16, "J\xfcrgen".encode("latin-1"), "CN=J\ufffdrgen"),
        (0x13, "Jürgen".encode(), "CN=Jürgen"),
        (0x0C, b"a\xff\xc0b", "CN=a\ufffd\ufffdb"),
        (0x0C, b"\xed\xa0\x80b\xed\xbf", "CN=\ufffdb\ufffd"),
        (0x0C, b"\xf0\x9f\x98", "CN=\ufffd"),
        (0x1C, b"\0\0\0a", "CN=#1c0400000061"),
    ],
)
def test_kinds_of_values(kind: int, value: bytes, text: str) -> None:
    attribute = tlv(0x30, bytes.fromhex("0603550403") + tlv(kind, value))
    assert name_of(tlv(0x31, attribute)) == text


def tlv(tag: int, content: bytes) -> bytes:
    """A value in DER, of less than 128 bytes."""
    return bytes([tag, len(content)]) + content


def test_a_damaged_certificate() -> None:
    whole = certificate([(CN, "x")])
    for end in range(0, 60, 7):
        with pytest.raises(ValueError, match="damaged certificate"):
            subject_of(whole[:end])
