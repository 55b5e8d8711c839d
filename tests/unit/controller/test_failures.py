"""Whatever a handler raises, or cannot say, is one caller's answer; only a torn log is more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from emulator.controller import machine, registry
from emulator.controller.queue.journal import DivergedError
from emulator.controller.result import TEXT_MAX, ApiError, Result, shortened
from emulator.controller.tables.config_changes import MATCH, error
from emulator.controller.tables.index import TipIndex
from emulator.raft.layout import AppendRefusedError
from emulator.seam import Reply
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.test_index import contents
from tests.unit.controller.world import World, call, create, header
from wire import messages as m
from wire import records as r
from wire.errors import UNEXPECTED, ErrorCode
from wire.frame import decode_response, encode_request

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
TOPIC = r.TopicRecord(name="new", topic_id=bytes(15) + b"\x99")
TOO_LONG = "x" * 40_000


def raises(*_: object) -> Result[Any]:
    raise KeyError("bug")


def unsayable(*_: object) -> Result[Any]:
    answer = m.CreateTopicsResponse.CreatableTopicResult(name="t", error_message=TOO_LONG)
    return Result(m.CreateTopicsResponse(topics=[answer]), (TOPIC,))


def unwritable(*_: object) -> Result[Any]:
    return Result(m.CreateTopicsResponse(), (TOPIC, r.TopicRecord(name=TOO_LONG)))


def unfitting(*_: object) -> Result[Any]:
    return Result(m.CreateTopicsResponse(), (TOPIC, r.PartitionRecord(topic_id=bytes(16))))


FAILING = [
    pytest.param(raises, "KeyError", id="the handler raises"),
    pytest.param(unsayable, "EncodeError", id="the answer does not fit its version"),
    pytest.param(unwritable, "EncodeError", id="a record does not fit its version"),
    pytest.param(unfitting, "ReplayError", id="a record does not fit the metadata"),
]


@pytest.fixture
def world() -> World:
    made = World()
    made.join(0)
    made.may_fail = True
    return made


@pytest.fixture
def answers_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def use(function: Any) -> None:
        handler = registry.handlers()[19]
        monkeypatch.setitem(registry._HANDLERS, 19, replace(handler, function=function))

    return use


def untouched(world: World, end: int) -> None:
    """Nothing was appended, and the next change is made."""
    assert world.log.log_end_offset == end
    assert world.tip.offset == end - 1
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))
    epoch = world.tip.brokers[0].epoch
    ids = m.AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch)
    assert world.ask(ids).error_code == 0


@pytest.mark.parametrize(("function", "kind"), FAILING)
def test_it_is_answered_and_nothing_is_done(
    world: World, answers_by: Callable[[Any], None], function: Any, kind: str
) -> None:
    answers_by(function)
    end = world.log.log_end_offset
    (answer,) = world.send(create("t"))
    assert [one.error_code for one in answer.topics] == [UNKNOWN]
    assert answer.topics[0].error_message == UNEXPECTED
    (failure,) = world.controller.answers.failures.take()
    assert (failure.api_key, failure.error, failure.first) == (19, kind, True)
    untouched(world, end)


def test_so_is_a_heartbeat_that_is_answered_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request ends the node, that which comes most often neither."""
    monkeypatch.setattr(machine, "stays_unfenced", raises)
    end = world.log.log_end_offset
    assert world.heartbeat(0).error_code == UNKNOWN
    assert [one.error for one in world.controller.answers.failures.take()] == ["KeyError"]
    untouched(world, end)


@pytest.mark.parametrize(("function", "kind"), FAILING)
def test_inside_an_envelope_it_is_the_inner_answer(
    world: World, answers_by: Callable[[Any], None], function: Any, kind: str
) -> None:
    answers_by(function)
    end = world.log.log_end_offset
    (answer,) = world.send(enveloped(encode_request(header(create("t")), create("t"))))
    assert answer.error_code == ErrorCode.NONE
    correlation_id, inner = decode_response(19, 7, answer.response_data)
    assert (correlation_id, inner.topics[0].error_code) == (7, UNKNOWN)
    assert [one.error for one in world.controller.answers.failures.take()] == [kind]
    untouched(world, end)


@pytest.mark.parametrize(("function", "kind"), FAILING)
def test_so_is_one_that_waited_for_zookeeper(
    world: World, answers_by: Callable[[Any], None], function: Any, kind: str
) -> None:
    world.controller.hold(now_ms=world.now_ms, room=0)
    assert world.send(create("t", timeout_ms=60_000)) == []
    answers_by(function)
    end = world.log.log_end_offset
    world.controller.hold(now_ms=world.now_ms)
    (answer,) = world.answers()
    assert answer.topics[0].error_code == UNKNOWN
    assert [one.error for one in world.controller.answers.failures.take()] == [kind]
    untouched(world, end)


def test_a_batch_that_the_log_refuses_was_never_there(world: World) -> None:
    end = world.log.log_end_offset
    append = world.log.append

    def refuse(_values: object, _now_ms: int) -> int:
        raise AppendRefusedError("no")

    world.log.append = refuse  # type: ignore[method-assign]
    (answer,) = world.send(create("t"))
    assert answer.topics[0].error_code == UNKNOWN
    assert world.tip.topic("t") is None
    world.log.append = append  # type: ignore[method-assign]
    untouched(world, end)


def test_a_batch_in_the_log_that_memory_does_not_have_stops_the_node(world: World) -> None:
    append = world.log.append

    def half(values: Any, now_ms: int) -> int:
        append(values, now_ms)
        raise ValueError("half way")

    world.log.append = half  # type: ignore[method-assign]
    with pytest.raises(DivergedError, match="half way"):
        world.send(create("t"))
    assert world.answers() == []


def test_an_operation_of_which_only_the_first_batch_is_in_the_log_stops_the_node(
    world: World, answers_by: Callable[[Any], None]
) -> None:
    many = tuple(r.NoOpRecord() for _ in range(10_000))
    answers_by(lambda *_: Result(m.CreateTopicsResponse(), (*many, TOPIC, TOPIC), atomic=False))
    with pytest.raises(DivergedError, match="10000 of 10002"):
        world.send(create("t"))


def test_what_the_raft_machine_raises_is_an_answer_too(world: World) -> None:
    asked = call(m.DescribeQuorumRequest(), 0)
    world.controller.request(asked, world.now_ms)
    (left,) = world.controller.answers.take_forwarded()
    with world.controller.answers.to(left):
        raise OverflowError("bug")
    assert [one.error_code for one in world.answers()] == [UNKNOWN]
    world.controller.request(asked, world.now_ms)
    world.controller.answers.take_forwarded()
    unsayable = m.DescribeQuorumResponse(error_message=TOO_LONG)
    world.controller.answers.answer(Reply(asked.ticket, unsayable))
    assert [one.error_code for one in world.answers()] == [ErrorCode.NONE], "v0 has no text"


def test_one_kind_is_told_once_and_counted_each_time(
    world: World, answers_by: Callable[[Any], None]
) -> None:
    answers_by(raises)
    for _ in range(3):
        world.send(create("t"))
    assert [one.first for one in world.controller.answers.failures.take()] == [True, False, False]
    ((key, count),) = world.controller.answers.failures.total.items()
    assert (key[:2], count) == ((19, "KeyError"), 3)
    assert "emulator.controller.queue.writes" in key[2]


def test_a_text_keeps_its_ends() -> None:
    made = ApiError(ErrorCode.INVALID_REQUEST, "begin " + TOO_LONG + " end").message
    assert len(made) <= TEXT_MAX
    assert made.startswith("begin ")
    assert made.endswith(" end")
    assert shortened("x" * TEXT_MAX) == "x" * TEXT_MAX


@pytest.mark.parametrize("pattern", ["(" * 5_000, "x{9" + "9" * 30 + "}", "["])
def test_a_pattern_that_cannot_be_compiled_is_refused(pattern: str) -> None:
    refused = error("subscription", {MATCH: f"client_id={pattern}"})
    assert refused.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", ["9" * 5_000, "-" + "9" * 5_000, "x" * 32_000])
def test_a_broker_whose_id_is_no_number_one_can_read(world: World, name: str) -> None:
    world.may_fail = False
    resource = m.AlterConfigsRequest.AlterConfigsResource(resource_type=4, resource_name=name)
    (told,) = world.ask(m.AlterConfigsRequest(resources=[resource])).responses
    assert told.error_code == ErrorCode.INVALID_REQUEST
    asked = m.DescribeConfigsRequest.DescribeConfigsResource
    wanted = asked(resource_type=4, resource_name=name)
    (shown,) = world.ask(m.DescribeConfigsRequest(resources=[wanted])).results
    assert shown.error_code == ErrorCode.INVALID_REQUEST
