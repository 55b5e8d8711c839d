"""``ssl.*`` of listeners: which value counts, and what is refused by name."""

from __future__ import annotations

import pytest

from emulator.config.broker import load_broker
from emulator.config.load import ConfigError, load
from emulator.config.reading import PropertyReader
from emulator.config.tls import Store, listener_tls
from tests.unit.config.test_sasl import CONTROLLER, MIGRATION

SECRET = "of-the-store"
STORES = {
    "ssl.keystore.location": "own.p12",
    "ssl.keystore.password": SECRET,
    "ssl.key.password": "of-the-key",
    "ssl.truststore.location": "all.pem",
}
OWN = "listener.name.inside.ssl."


def problems(**more: str) -> str:
    reader = PropertyReader({key.replace("_", "."): value for key, value in more.items()})
    listener_tls(reader, "INSIDE", serves=True)
    return "\n".join(reader.problems)


def test_the_value_of_the_listener_wins() -> None:
    found = listener_tls(
        PropertyReader(
            STORES
            | {
                f"{OWN}keystore.location": "its.pem",
                f"{OWN}client.auth": "Required",
                f"{OWN}endpoint.identification.algorithm": "",
                "ssl.enabled.protocols": "TLSv1.3",
            }
        ),
        "INSIDE",
        serves=True,
    )
    assert found.keystore == Store("its.pem", "of-the-key", "PEM")
    assert found.truststore == Store("all.pem", None, "PEM")
    assert (found.client_auth, found.verify_host) == ("required", False)
    assert (found.protocols, found.prefix) == (("TLSv1.3",), OWN)


def test_kafkas_defaults() -> None:
    reader = PropertyReader(STORES)
    found = listener_tls(reader, "INSIDE", serves=True)
    assert reader.problems == []
    assert found.keystore == Store("own.p12", SECRET, "PKCS12")
    assert found.protocols == ("TLSv1.2", "TLSv1.3")
    assert (found.client_auth, found.verify_host, found.prefix) == ("none", True, "ssl.")
    assert SECRET not in str(found)


def test_certificates_of_sasl_clients_are_asked_for_by_the_listener_alone() -> None:
    for key, asked in (("ssl.client.auth", "none"), (f"{OWN}client.auth", "requested")):
        reader = PropertyReader(STORES | {key: "requested"})
        assert listener_tls(reader, "INSIDE", serves=True, with_sasl=True).client_auth == asked


def test_a_node_that_only_connects_needs_no_certificate() -> None:
    reader = PropertyReader({"ssl.truststore.location": "all.pem", "ssl.client.auth": "required"})
    found = listener_tls(reader, "INSIDE", serves=False)
    assert (reader.problems, found.keystore, found.client_auth) == ([], None, "none")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "ssl.keystore.location is required for listener INSIDE"),
        ({"ssl_keystore_location": "a.jks"}, "ssl.keystore.type: JKS is not supported"),
        ({"ssl_keystore_location": "a"}, "ssl.keystore.type: the type of a is not supported"),
        ({"ssl_keystore_key": SECRET}, "ssl.keystore.key: not supported"),
        ({"ssl_truststore_certificates": SECRET}, "ssl.truststore.certificates: not supported"),
        ({"ssl_engine_factory_class": "a.B"}, "ssl.engine.factory.class=a.B"),
        ({"ssl_client_auth": "maybe"}, "ssl.client.auth=maybe"),
        (
            {"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:x"},
            "ssl.principal.mapping.rules=RULE:x: only DEFAULT",
        ),
        ({"ssl_enabled_protocols": "SSLv3"}, "SSLv3 is not one of"),
        ({"ssl_endpoint_identification_algorithm": "x"}, "must be HTTPS or empty"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(more: dict[str, str], why: str) -> None:
    found = problems(**more)
    assert why in found
    assert SECRET not in found


def test_who_serves_and_who_connects() -> None:
    tls = {"listener.security.protocol.map": "CONTROLLER:SASL_SSL,INTERNAL:SSL"}
    more = {"inter.broker.listener.name": "INTERNAL", **STORES}
    found, _ = load(CONTROLLER | MIGRATION | tls | more)
    assert found.tls.keys() == {"listener CONTROLLER", "listener INTERNAL"}
    assert found.inter_broker_access.tls == "listener INTERNAL"
    assert found.inter_broker_access.login is None
    assert found.sasl.listeners.keys() == {"CONTROLLER"}
    broker, _ = load_broker(
        {
            "process.roles": "broker",
            "node.id": "1",
            "controller.quorum.voters": "3000@c1:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
            "log.dirs": "a",
        },
        "me",
    )
    assert broker.tls.keys() == {"listener CONTROLLER"}
    assert broker.controller_access.tls == "listener CONTROLLER"
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location is required"):
        load(CONTROLLER | tls)
