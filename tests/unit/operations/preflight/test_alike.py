"""PF-W26 on nodes that differ on purpose: no key is missed that a node does not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import Survey
from tests.unit.operations.preflight import clean

STORE = "ssl.keystore"
TLS = "listener.name.tls-9093.ssl.keystore.location"
ZOOKEEPER = "zookeeper.ssl.truststore.location"
ON_ALL: Mapping[str, str] = {
    f"{STORE}.location": "/etc/kafka/node.p12",
    f"{STORE}.password": "x",
    TLS: "/etc/kafka/tls.p12",
    ZOOKEEPER: "/etc/kafka/trust.p12",
}


def missed(unset: set[str], more: Mapping[str, str], listeners: str = "") -> list[str]:
    """The keys that PF-W26 misses in the first of three brokers, which lacks or has some."""
    survey: Survey = clean.operated()
    brokers = [x for x in survey.properties if x.is_zookeeper_broker]
    files = []
    for one in brokers:
        values = {**one.values, **ON_ALL}
        if one is brokers[0]:
            values = {key: x for key, x in values.items() if key not in unset} | dict(more)
            values["listeners"] = listeners or values["listeners"]
        files.append(replace(one, values=values))
    report = run(replace(survey, properties=files, targets=()))
    found = [x.znode for x in report.findings if str(x.code).endswith("W26")]
    return sorted(x.rpartition(": ")[2] for x in found)


@pytest.mark.parametrize("key", [f"{STORE}.password", ZOOKEEPER])
def test_a_key_that_the_node_reads_is_missed(key: str) -> None:
    assert missed({key}, {}) == [key]


def test_a_store_of_zookeeper_is_not_one_of_listeners() -> None:
    less = {f"{STORE}.location", TLS}
    assert f"{STORE}.location" in missed(less, {f"zookeeper.{STORE}.location": "/z"})


def test_a_node_without_tls_needs_no_keystore() -> None:
    lacking = {f"{STORE}.location", f"{STORE}.password", TLS}
    plain = {"listener.security.protocol.map": "PLAIN-9092:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    assert missed(lacking, {}) == sorted(lacking)
    assert missed(lacking, plain, "PLAIN-9092://0.0.0.0:9092") == []


@pytest.mark.parametrize(
    "pem",
    [
        {f"{STORE}.type": "PEM", f"{STORE}.certificate.chain": "c", f"{STORE}.key": "k"},
        {f"{STORE}.type": "PEM", f"{STORE}.location": "/etc/kafka/node.pem"},
    ],
)
def test_a_store_in_pem_is_none_that_is_missed(pem: Mapping[str, str]) -> None:
    assert missed({f"{STORE}.location", f"{STORE}.password", TLS}, pem) == []


def test_a_node_that_ended_zookeeper_needs_none_of_its_keys() -> None:
    survey = clean.operated()
    controllers = [*survey.controllers]
    files = []
    for one in controllers:
        gone = one is controllers[0]
        values = {k: v for k, v in one.values.items() if not (gone and k.startswith("zookeeper."))}
        files.append(replace(one, values=values if gone else {**values, ZOOKEEPER: "/t"}))
    report = run(replace(survey, properties=files, targets=()))
    assert not [x for x in report.findings if str(x.code).endswith("W26")]
