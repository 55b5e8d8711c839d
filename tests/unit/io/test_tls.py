"""Stores and settings of TLS: what is wrong is named with its property."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emulator.config.tls import Store, TlsSettings
from emulator.io.tls import TlsError, context, explain, not_after
from tests.kit.certificates import PASSWORD, Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def pem(path: Path) -> Store:
    return Store(str(path), None, "PEM")


def p12(path: Path, password: str | None = PASSWORD) -> Store:
    return Store(str(path), password, "PKCS12")


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_both_kinds_of_stores_say_the_same(authority: Authority, kind: str) -> None:
    client = authority.issue("client")
    if kind == "PEM":
        tls = TlsSettings(pem(client), pem(authority.pem))
    else:
        tls = TlsSettings(p12(authority.as_pkcs12(client)), p12(authority.p12))
    made = context(tls, datetime.now(UTC))
    assert made.cert_store_stats()["x509_ca"] == 1
    assert made.check_hostname
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2


def test_settings(authority: Authority) -> None:
    suites = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256")
    tls = TlsSettings(None, pem(authority.pem), ("TLSv1.3", "TLSv1.2"), suites, False)
    made = context(tls)
    assert not made.check_hostname
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert (made.minimum_version, made.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    older = {one["name"] for one in made.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert older == {"ECDHE-RSA-AES128-GCM-SHA256"}


def test_what_cannot_be_used_is_named(authority: Authority, tmp_path: Path) -> None:
    client = authority.issue("client")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    empty = authority.as_pkcs12(client)
    keys, trusts = "zookeeper.ssl.keystore.location=", "zookeeper.ssl.truststore.location="
    wrong = {
        f"{keys}{tmp_path}/none.pem: No such file": TlsSettings(pem(tmp_path / "none.pem")),
        f"{keys}{garbage}: ": TlsSettings(pem(garbage)),
        f"{keys}{empty}: Invalid password": TlsSettings(p12(empty, "wrong")),
        f"{keys}{authority.p12}: no private key": TlsSettings(p12(authority.p12)),
        f"{trusts}{garbage}: ": TlsSettings(None, pem(garbage)),
        f"{trusts}{tmp_path}/none.p12: No such file": TlsSettings(None, p12(tmp_path / "none.p12")),
        "zookeeper.ssl.cipher.suites: TLS_NULL": TlsSettings(cipher_suites=("TLS_NULL",)),
    }
    for text, tls in wrong.items():
        with pytest.raises(TlsError) as error:
            context(tls)
        assert str(error.value).startswith(text)


@pytest.mark.parametrize("pkcs12", [False, True])
def test_our_own_certificate_must_be_valid_when_we_connect(
    authority: Authority, pkcs12: bool
) -> None:
    old = authority.issue("old", expired=True)
    tls = TlsSettings(p12(authority.as_pkcs12(old)) if pkcs12 else pem(old))
    context(tls)
    context(tls, datetime.now(UTC) - timedelta(days=1, hours=1))
    with pytest.raises(TlsError, match=r"old\.(pem|p12): the certificate expired at 20"):
        context(tls, datetime.now(UTC))


def test_the_end_of_a_certificate(authority: Authority) -> None:
    from cryptography import x509

    for path in (authority.pem, authority.issue("new"), authority.issue("old", expired=True)):
        (first, *_) = x509.load_pem_x509_certificates(path.read_bytes())
        assert not_after(path.read_text()) == first.not_valid_after_utc
    with pytest.raises(ValueError, match="no certificate"):
        not_after("")
    with pytest.raises(ValueError, match="damaged"):
        not_after(ssl.DER_cert_to_PEM_cert(b"\x30\x02\x30\x00"))


def test_a_store_leaves_no_file_behind(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    context(TlsSettings(p12(authority.as_pkcs12(authority.issue("client")))))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ssl.SSLError(1, "[SSL: X] tlsv1 alert protocol version (_ssl.c:1)"),
            "alert: protocol version",
        ),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong (_ssl.c:1)"), "does not speak TLS"),
        (ssl.SSLEOFError(8, "EOF occurred"), "it wants plain text at this port"),
        (ssl.SSLError(1, "[SSL] odd (_ssl.c:1)"), "TLS: "),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_errors_in_plain_words(error: OSError, text: str) -> None:
    assert text in explain(error)
