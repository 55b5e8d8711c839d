"""The properties of a secured ZooKeeper: Kafka's names, Kafka's refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.config import load as config
from emulator.config.confidential import redacted
from emulator.config.tls import NETTY, Store, TlsSettings
from emulator.config.zookeeper import JAAS, ZooKeeperLogin, read
from emulator.io.jaas_file import inlined

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
CLIENT = f'Client {{ {DIGEST} required username="kafka" password="secret"; }};'
TLS = {"zookeeper.ssl.client.enable": "true", "zookeeper.clientCnxnSocket": NETTY}
SSL = "zookeeper.ssl."


def test_nothing_said_is_nobody_and_open() -> None:
    security, problems = read({})
    assert (security.identities, security.set_acl, security.tls) == ((), False, None)
    assert problems == []


def test_who_we_are() -> None:
    raw = {JAAS: CLIENT, "kraftbridge.zookeeper.digest": "me:my:word", "zookeeper.set.acl": "True"}
    security, problems = read(raw)
    assert problems == []
    assert security.sasl == ZooKeeperLogin("kafka", "secret")
    assert security.digest == ZooKeeperLogin("me", "my:word")
    assert security.identities == ("sasl:kafka", "digest:me")
    assert security.set_acl
    assert "secret" not in repr(security)
    assert "word" not in repr(security)


def test_kafkas_tls_properties_and_their_defaults() -> None:
    keys = {SSL + "keystore.location": "/k.p12", SSL + "keystore.password": "x"}
    security, problems = read({**TLS, **keys, SSL + "truststore.location": "/t.pem"})
    assert problems == []
    assert security.tls == TlsSettings(
        Store("/k.p12", "x", "PKCS12"), Store("/t.pem", None, "PEM"), ("TLSv1.2",), (), True
    )
    assert security.identities == ("x509",)
    more = {
        SSL + "protocol": "TLSv1.3",
        SSL + "enabled.protocols": "TLSv1.2,TLSv1.3",
        SSL + "cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA",
        SSL + "endpoint.identification.algorithm": "",
        SSL + "truststore.location": "/anything",
        SSL + "truststore.type": "pem",
    }
    tls = read(TLS | more)[0].tls
    assert tls == TlsSettings(
        None,
        Store("/anything", None, "PEM"),
        ("TLSv1.2", "TLSv1.3"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA",),
        False,
    )


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"zookeeper.set.acl": "yes"}, "zookeeper.set.acl=yes: must be true or false"),
        ({JAAS: "Server { a.B required; };"}, "no section Client"),
        ({JAAS: CLIENT.replace(DIGEST, "com.sun.Krb5LoginModule")}, "Krb5LoginModule is not"),
        ({JAAS: CLIENT.replace("password", "word")}, "needs password"),
        ({JAAS: "Client {"}, "a section is not closed"),
        ({"kraftbridge.zookeeper.digest": "me"}, "not user:password"),
        ({"zookeeper.ssl.client.enable": "true"}, f"needs zookeeper.clientCnxnSocket={NETTY}"),
        ({**TLS, SSL + "crl.enable": "true"}, "crl.enable=true is not supported yet"),
        ({**TLS, SSL + "ocsp.enable": "true"}, "ocsp.enable=true is not supported yet"),
        ({**TLS, SSL + "protocol": "SSLv3"}, "SSLv3 is not one of TLSv1,"),
        ({**TLS, SSL + "enabled.protocols": "TLSv1.3,TLSv1.1"}, "between two others"),
        ({**TLS, SSL + "keystore.location": "/k.jks"}, "keystore.type: JKS is not supported"),
        ({**TLS, SSL + "truststore.location": "/k"}, "the type of /k is not supported"),
        (
            {**TLS, SSL + "endpoint.identification.algorithm": "LDAPS"},
            "must be HTTPS or empty",
        ),
    ],
)
def test_a_wrong_value_is_named(raw: dict[str, str], problem: str) -> None:
    problems = read(raw)[1]
    assert any(problem in text for text in problems), problems
    assert "secret" not in " ".join(problems)


MIGRATING = {"zookeeper.metadata.migration.enable": "true", "zookeeper.set.acl": "true"}
STORE = {SSL + "keystore.location": "/k.pem"}


@pytest.mark.parametrize(
    ("raw", "refused"),
    [
        ({}, True),
        # An identity that no broker can have must not own what brokers write.
        ({"kraftbridge.zookeeper.digest": "a:b"}, True),
        (TLS, True),
        (TLS | STORE, False),
        ({JAAS: CLIENT}, False),
        ({"zookeeper.metadata.migration.enable": "false"}, False),
        ({"zookeeper.set.acl": "false"}, False),
    ],
)
@pytest.mark.requirement("C10")
def test_acls_for_nobody_stop_the_start(raw: dict[str, str], refused: bool) -> None:
    with pytest.raises(config.ConfigError) as error:
        config.load(MIGRATING | raw)
    said = [text for text in error.value.problems if "zookeeper.set.acl is true, but" in text]
    assert bool(said) == refused


def test_a_jaas_file_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "zookeeper.jaas"
    path.write_text(CLIENT)
    for named in (str(path), f"file:{path}"):
        assert inlined({JAAS: named, "a": "b"}) == {JAAS: CLIENT, "a": "b"}
    assert inlined({JAAS: CLIENT}) == {JAAS: CLIENT}
    assert inlined({}) == {}
    with pytest.raises(ValueError, match=f"{JAAS}: {tmp_path}/nowhere: No such file"):
        inlined({JAAS: str(tmp_path / "nowhere")})
    with pytest.raises(ValueError, match=f"{JAAS}: the file that it names: No such file") as error:
        inlined({JAAS: "nowhere"})
    assert "nowhere" not in str(error.value), "it may be a password where a path is expected"
    for login in ("a.Digest required username=u password=x;", 'Client "x"'):
        assert inlined({JAAS: login}) == {JAAS: login}


def test_a_trace_holds_no_secret() -> None:
    raw = {JAAS: CLIENT, "kraftbridge.zookeeper.digest": "a:b", SSL + "keystore.password": "c"}
    assert set(redacted(raw).values()) == {"<redacted>"}
    assert redacted({"zookeeper.connect": "a:1", SSL + "keystore.type": "PEM"}) == {
        "zookeeper.connect": "a:1",
        SSL + "keystore.type": "PEM",
    }
