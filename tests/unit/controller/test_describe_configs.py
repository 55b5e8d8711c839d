"""DescribeConfigs on a controller; beside Kafka's own ConfigHelper it is judged elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from emulator.controller.registry import advertised, handlers
from emulator.controller.tables.server_configs import (
    Type,
    printed,
    server_configs,
    synonyms_of,
    type_of,
)
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from tests.unit.controller.test_delegation_tokens import Denies
from tests.unit.controller.world import World, context, handle, image_of, topic
from wire import messages as m
from wire import records as r
from wire.codec import encode

Request = m.DescribeConfigsRequest
PROPERTIES = {"node.id": "3000", "ssl.key.password": "hush!", "kraftbridge.x": "hush!"}
IMAGE = image_of(
    topic("t", 1),
    *(
        r.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for kind, name, key, value in (
            (TOPIC, "t", "retention.ms", "5"),
            (BROKER, "", "listener.name.x.ssl.key.password", "hush!"),
            (BROKER, "3000", "num.io.threads", "9"),
            (CLIENT_METRICS, "s", "metrics", "a"),
        )
    ),
)


def ask(*resources: tuple[int, str], keys: tuple[str, ...] | None = None, **fields: Any) -> Request:
    return Request(
        resources=[
            Request.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name in resources
        ],
        **fields,
    )


def results(request: Request, version: int | None = None, **fields: Any) -> Any:
    fields.setdefault("properties", PROPERTIES)
    return handle(IMAGE, request, version, **fields).response.results


@pytest.mark.parametrize("version", range(5))
def test_every_version_can_be_sent_and_no_secret_is_told(version: int) -> None:
    request = ask((TOPIC, "t"), (BROKER, "3000"), (BROKER, ""), (CLIENT_METRICS, "s"))
    request.include_synonyms = version > 0
    response = handle(IMAGE, request, version, properties=PROPERTIES).response
    sent = encode(response, version)
    assert b"retention.ms" in sent
    assert b"ssl.key.password" in sent
    assert b"hush!" not in sent
    # As Kafka's servers, which fill this field of version 0 no more.
    assert not [one for one in response.results[0].configs if one.is_default]


def test_only_the_keys_that_were_asked_for() -> None:
    request = ask((TOPIC, "t"), (BROKER, "3000"), keys=("retention.ms", "num.io.threads"))
    (of_topic,), (of_broker,) = (one.configs for one in results(request))
    assert (of_topic.value, of_topic.config_source, of_topic.config_type) == ("5", 1, Type.LONG)
    assert (of_broker.value, of_broker.config_source, of_broker.read_only) == ("9", 2, False)
    assert of_topic.synonyms == of_broker.synonyms == []


def test_a_resource_named_twice_is_answered_once() -> None:
    twice = ((TOPIC, "t"), (BROKER, "3000"), (BROKER, "03000"), (BROKER, "+3000"), (TOPIC, "none"))
    found = results(ask(*twice, *twice, (BROKER, ""), (BROKER, "x"), (BROKER, "x")))
    names = [one.resource_name for one in found]
    assert names == ["t", "3000", "none", "", "x"]


def test_without_the_right_nothing_is_told() -> None:
    request = ask((TOPIC, "t"), (BROKER, ""), (CLIENT_METRICS, "s"))
    around = context(IMAGE, request)
    around = msgspec.structs.replace(around, config=replace(around.config, authorizer=Denies()))
    answers = handlers()[32].result(IMAGE, request, around).response.results
    assert [(one.error_code, one.configs) for one in answers] == [(29, []), (31, []), (31, [])]


def test_an_unknown_type_spoils_the_request_and_a_logger_its_entry() -> None:
    assert {one.error_code for one in results(ask((TOPIC, "t"), (3, "x")))} == {42}
    assert [one.error_code for one in results(ask((TOPIC, "t"), (8, "3000")))] == [0, 42]


@pytest.mark.parametrize(
    ("release", "count"), [("3.4", None), ("3.6", None), ("3.7", 285), ("3.8", 299), ("3.9", 315)]
)
def test_which_release_tells_of_what(release: str, count: int | None) -> None:
    assert (32 in advertised(release)) == (count is not None)
    if count is not None:
        assert len(server_configs(release)) == count


def test_it_is_answered_before_the_copy_and_on_a_standby() -> None:
    standby = World(activate=False)
    (answer,) = standby.ask(ask((BROKER, "3000"))).results
    assert answer.error_code == 0


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        (" TRUE ", Type.BOOLEAN, "true"),
        ("007", Type.INT, "7"),
        ("x", Type.LONG, "x"),
        ("a , b", Type.LIST, "a,b"),
        (" a ", Type.STRING, "a"),
        (" a ", Type.UNKNOWN, " a "),
    ],
)
def test_values_are_printed_as_they_were_understood(text: str, kind: Type, shown: str) -> None:
    assert printed(text, kind) == shown


@pytest.mark.parametrize("name", ["3_000", " 3000", "3000 ", "3" * 5_000])
def test_what_only_python_reads_as_a_number_is_no_node_id(name: str) -> None:
    (result,) = results(ask((BROKER, name)))
    assert result.error_code == 42
    assert result.error_message.startswith(f"Broker id must be an integer, but it is: {name[:99]}")


@pytest.mark.parametrize(
    ("name", "synonyms"),
    [
        ("num.io.threads", ("num.io.threads",)),
        ("log.roll.hours", ("log.roll.ms", "log.roll.hours")),
        ("listener.name.x.ssl.key.password", ("ssl.key.password",)),
        ("listener.name.x.plain.sasl.jaas.config", ("sasl.jaas.config",)),
        ("listener.name.x.scram-sha-256.connections.max.reauth.ms", ("connections.max.reauth.ms",)),
        ("listener.names", ("listener.names",)),
    ],
)
def test_the_names_that_a_property_also_has(name: str, synonyms: tuple[str, ...]) -> None:
    own = (name,) if name.startswith("listener.name.") else ()
    assert synonyms_of(name) == (*own, *synonyms)


def test_the_type_of_a_listeners_property_is_that_of_the_property() -> None:
    assert type_of("listener.name.x.ssl.key.password", "3.9") is Type.PASSWORD
    assert type_of("listener.name.x.ssl.keystore.type", "3.9") is Type.STRING
    assert type_of("listener.name.x.no.such", "3.9") is Type.UNKNOWN
