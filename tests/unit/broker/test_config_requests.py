"""AlterConfigs and IncrementalAlterConfigs: what a broker answers, and what it forwards."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.registry import PassOn
from emulator.controller.tables.config_changes import BROKER_LOGGER
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from emulator.seam import whole
from tests.unit.broker.asking import ACLS, ask
from tests.unit.broker.joined_brokers import Stage
from tests.unit.controller.world import broker, image_of
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, encode_request, framed

IMAGE = image_of(broker(1), broker(2))
SET, DELETE, APPEND, SUBTRACT = range(4)


def incremental(*resources: tuple[int, str, list[Any]], **fields: Any) -> Any:
    kind = m.IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=one,
                resource_name=name,
                configs=[
                    kind.AlterableConfig(name=key, config_operation=how, value=value)
                    for key, how, value in configs
                ],
            )
            for one, name, configs in resources
        ],
        **fields,
    )


def legacy(*resources: tuple[int, str, dict[str, str | None]], **fields: Any) -> Any:
    kind = m.AlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=one,
                resource_name=name,
                configs=[
                    kind.AlterableConfig(name=key, value=value) for key, value in configs.items()
                ],
            )
            for one, name, configs in resources
        ],
        **fields,
    )


def codes(answer: Any) -> list[tuple[int, str, int]]:
    assert not isinstance(answer, PassOn), answer
    return [(one.resource_type, one.resource_name, one.error_code) for one in answer.responses]


def test_what_is_right_is_forwarded_as_it_came():
    request = incremental(
        (TOPIC, "t", [("retention.ms", SET, "5")]),
        (CLIENT_METRICS, "m", [("interval.ms", DELETE, None)]),
        (BROKER, "1", [("background.threads", SET, "3")]),
        (BROKER, "", [("num.io.threads", SET, "3")]),
        validate_only=True,
    )
    told = ask(IMAGE, request)
    assert isinstance(told, PassOn)
    assert told.message == request


def test_topics_are_left_to_the_controller():
    """Whether a topic, a key or a value exists is nothing that this broker decides."""
    for request in (
        incremental((TOPIC, "no such", [("no.such.key", 77, "x")])),
        legacy((TOPIC, "no such", {"no.such.key": "x"})),
    ):
        told = ask(IMAGE, request)
        assert isinstance(told, PassOn)
        assert told.message.resources == request.resources


WRONG: list[tuple[int, str, list[Any]]] = [
    (99, "x", []),
    (TOPIC, "t", [("a", SET, "1"), ("a", SET, "2")]),
    (TOPIC, "t", [("a", SET, None)]),
    (BROKER, "2", [("background.threads", SET, "3")]),
    (BROKER, "one", [("background.threads", SET, "3")]),
    (BROKER, "1_", [("background.threads", SET, "3")]),
    (BROKER, "0_1", [("background.threads", SET, "3")]),
    (BROKER, "9" * 5_000, [("background.threads", SET, "3")]),
    (BROKER, "1", [("node.id", SET, "3")]),
    (BROKER, "1", [("background.threads", SET, "many")]),
    (BROKER, "1", [("background.threads", 77, "3")]),
    (BROKER, "", [("listeners", SET, "X://:1")]),
    (BROKER, "", [("listener.name.x.ssl.keystore.type", SET, "JKS")]),
    (BROKER, "1", [("ssl.keystore.type", SET, "JKS")]),
    (BROKER_LOGGER, "1", [("root", SET, "INFO")]),
    (BROKER_LOGGER, "2", [("root", SET, "INFO")]),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: f"{one[0]} {one[1][:9]} {one[2]}"[:60])
def test_what_is_wrong_is_answered_here(wrong: Any):
    request = incremental(wrong)
    told = ask(IMAGE, request)
    assert codes(told) == [(wrong[0], wrong[1], ErrorCode.INVALID_REQUEST)]
    assert told.responses[0].error_message


OF_A_MODE = [
    "broker.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "inter.broker.protocol.version",
    "node.id",
    "process.roles",
    "zookeeper.connect",
    "zookeeper.metadata.migration.enable",
]
"""What docs/runbook.md changes to bring a broker into another mode."""


@pytest.mark.requirement("X02")
@pytest.mark.parametrize("key", OF_A_MODE)
@pytest.mark.parametrize("name", ["", "1"])
def test_a_broker_changes_its_mode_by_a_restart_only(key: str, name: str):
    answer = ask(IMAGE, incremental((BROKER, name, [(key, SET, "1")])))
    assert codes(answer) == [(BROKER, name, ErrorCode.INVALID_REQUEST)]
    why = f"Cannot update these configs dynamically: Set({key})"
    assert answer.responses[0].error_message == why


def test_append_is_for_lists():
    request = incremental((BROKER, "1", [("background.threads", APPEND, "3")]))
    assert codes(ask(IMAGE, request)) == [(BROKER, "1", ErrorCode.INVALID_CONFIG)]
    request = incremental((BROKER, "1", [("log.cleanup.policy", APPEND, "compact")]))
    assert isinstance(ask(IMAGE, request), PassOn)


def test_a_value_that_is_set_before_is_validated_with_the_new_one():
    image = image_of(
        broker(1),
        r.ConfigRecord(resource_type=4, resource_name="1", name="background.threads", value="x"),
    )
    other = (BROKER, "1", [("num.io.threads", SET, "3")])
    assert codes(ask(image, incremental(other))) == [(BROKER, "1", ErrorCode.INVALID_REQUEST)]
    gone = (BROKER, "1", [("background.threads", DELETE, None)])
    assert isinstance(ask(image, incremental(gone)), PassOn)
    replaced = (BROKER, "1", {"num.io.threads": "3"})
    assert isinstance(ask(image, legacy(replaced)), PassOn)


def test_a_resource_given_twice_is_wrong_both_times():
    once, other = (TOPIC, "t", [("a", SET, "1")]), (TOPIC, "u", [("a", SET, "1")])
    told = ask(IMAGE, incremental(once, other, once))
    assert isinstance(told, PassOn)
    assert [one.resource_name for one in told.message.resources] == ["u"]
    answer = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=0, error_message=None, resource_type=TOPIC, resource_name="u"
    )
    joined = whole(
        told.join(m.IncrementalAlterConfigsResponse(throttle_time_ms=7, responses=[answer]))
    )
    assert joined.throttle_time_ms == 7
    wrong = ErrorCode.INVALID_REQUEST
    assert codes(joined) == [(TOPIC, "t", wrong), (TOPIC, "u", 0), (TOPIC, "t", wrong)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_older_api_joins_both_parts_too(version: int):
    told = ask(
        IMAGE,
        legacy((BROKER, "2", {}), (TOPIC, "t", {"a": "1"}), (TOPIC, "u", {"a": None})),
        version,
    )
    assert isinstance(told, PassOn)
    assert [one.resource_name for one in told.message.resources] == ["t"]
    joined = whole(told.join(m.AlterConfigsResponse()))
    wrong = ErrorCode.INVALID_REQUEST
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes(joined) == [(BROKER, "2", wrong), (TOPIC, "t", unknown), (TOPIC, "u", wrong)]


def test_an_error_number_without_a_name_does_not_break_the_answer():
    told = ask(IMAGE, legacy((TOPIC, "t", {"a": "1"})))
    answer = m.AlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=31_999, resource_type=TOPIC, resource_name="t"
    )
    joined = whole(told.join(m.AlterConfigsResponse(responses=[answer])))
    assert codes(joined) == [(TOPIC, "t", ErrorCode.UNKNOWN_SERVER_ERROR)]


def test_nothing_to_forward_is_answered_at_once():
    assert codes(ask(IMAGE, incremental())) == []
    assert codes(ask(IMAGE, legacy((BROKER, "2", {})))) == [(BROKER, "2", 42)]


def test_loggers_need_the_right_to_alter_the_cluster():
    request = incremental((BROKER_LOGGER, "1", [("root", SET, "INFO")]))
    denied = ask(IMAGE, request, properties=ACLS)
    assert codes(denied) == [(BROKER_LOGGER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]


def test_a_request_that_is_the_controllers_alone_is_not_encoded_again() -> None:
    topics = [(TOPIC, name, [("retention.ms", SET, "1")]) for name in ("b", "a", "c")]
    request = incremental(*topics)
    told = ask(IMAGE, request)
    assert isinstance(told, PassOn)
    assert told.message is request
    kind = m.IncrementalAlterConfigsResponse
    by_controller = [
        kind.AlterConfigsResourceResponse(resource_type=TOPIC, resource_name=name)
        for name in ("a", "b", "c")
    ]
    answer = whole(told.join(kind(responses=by_controller)))
    assert [one.resource_name for one in answer.responses] == ["b", "a", "c"], "the client's order"


def test_the_client_s_own_bytes_go_into_the_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    (one,) = stage.running(1)
    seen: list[bytes] = []
    forward = one.forwarding.forward

    def watched(data: bytes, *more: Any) -> None:
        seen.append(data)
        forward(data, *more)

    monkeypatch.setattr(one.forwarding, "forward", watched)
    client = stage.client(1)
    request = incremental((TOPIC, "t", [("retention.ms", SET, "1")]))
    header = RequestHeader(api_key=44, api_version=1, correlation_id=7, client_id="x")
    # A tagged field that nobody knows stays: tag 9, one byte.
    frame = encode_request(header, request)[:-1] + b"\x01\x09\x01z"
    stage.joined.send(client.conn, framed(frame))
    stage.joined.until(lambda: bool(client.frames))
    assert seen == [frame]
