"""Requests that name many things: one answer, made over many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from emulator.broker import registry
from emulator.broker.api import describe_configs, find_coordinator, metadata
from emulator.broker.machine import BrokerNode
from emulator.broker.registry import entries_max, served
from emulator.broker.serving import forwarding, in_parts
from emulator.broker.serving.in_parts import CHARACTERS_MAX, DIVIDED_ENTRIES_MAX, ENTRIES_MAX, runs
from emulator.metadata.configs import BROKER, TOPIC
from tests.kit.joined import Asker
from tests.kit.requests import alter_config
from tests.unit.broker.control import live, update
from tests.unit.broker.joined_brokers import Stage
from tests.unit.broker.zookeeper_stage import ZooKeeperStage
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import (
    SLICED_BYTES,
    RequestHeader,
    decode_response,
    encode_request,
    framed,
)
from wire.schema import spec

Named = m.MetadataRequest.MetadataRequestTopic
Resource = m.DescribeConfigsRequest.DescribeConfigsResource
MANY = 450


def topics(names: Iterable[str], **more: Any) -> m.MetadataRequest:
    return m.MetadataRequest(topics=[Named(name=name) for name in names], **more)


def keys(count: int, kind: int = 0) -> m.FindCoordinatorRequest:
    names = tuple(f"g{number}" for number in range(count))
    return m.FindCoordinatorRequest(key_type=kind, coordinator_keys=names)


def resources(count: int) -> m.DescribeConfigsRequest:
    some = [
        Resource(resource_type=TOPIC, resource_name="a"),
        Resource(resource_type=BROKER, resource_name="1", configuration_keys=("num.io.threads",)),
        Resource(resource_type=BROKER, resource_name="01"),
    ]
    more = [Resource(resource_type=TOPIC, resource_name=f"t{n % 90}") for n in range(count)]
    return m.DescribeConfigsRequest(resources=some + more + some)


def with_topics() -> Stage:
    stage = Stage()
    stage.running(1, auto_create_topics_enable="false")
    kind = m.CreateTopicsRequest
    wanted = [
        kind.CreatableTopic(name=name, num_partitions=n, replication_factor=1)
        for n, name in enumerate(("a", "b", "c", "__consumer_offsets"), 1)
    ]
    stage.client(1).ask(kind(topics=wanted, timeout_ms=10_000), 7)
    return stage


def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer everything in one step."""
    for of, name in (
        (find_coordinator, "KEYS_IN_PART"),
        (metadata, "TOPICS_IN_PART"),
        (describe_configs, "RESOURCES_IN_PART"),
    ):
        monkeypatch.setattr(of, name, 10**6)


NAMES = [f"x{n % 300}" for n in range(MANY)] + ["a", "b", "..", "a", "c"]
IDS = [Named(name=None, topic_id=n.to_bytes(16, "big")) for n in range(MANY)]
ASKED: list[tuple[Callable[[], Any], Iterable[int]]] = [
    (lambda: keys(1_200), (4, 6)),
    (lambda: keys(1_200, kind=1), (4, 5)),
    (lambda: topics(NAMES, allow_auto_topic_creation=False), (4, 8, 9, 10, 12)),
    (lambda: topics(NAMES[300:]), (1, 3)),
    (lambda: m.MetadataRequest(topics=IDS, allow_auto_topic_creation=False), (12,)),
    (lambda: m.MetadataRequest(topics=IDS, allow_auto_topic_creation=False), (10,)),
    (lambda: resources(MANY), (1, 4)),
]


@pytest.mark.parametrize(("asked", "versions"), ASKED)
def test_the_answer_is_the_one_of_a_single_step(
    asked: Callable[[], Any], versions: Iterable[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = with_topics()
    found = {version: stage.client(1).ask(asked(), version) for version in versions}
    whole(monkeypatch)
    for version in versions:
        assert found[version] == stage.client(1).ask(asked(), version)


@pytest.mark.parametrize("version", [4, 6])
def test_whatever_number_a_client_gives_its_request_comes_back(version: int) -> None:
    """Clients count on from the largest number to the smallest."""
    stage = Stage()
    stage.running(1)
    client = stage.client(1)
    for number in (-(2**31), -1, 0, 2**31 - 1):
        header = RequestHeader(10, version, number, "me")
        stage.joined.send(client.conn, framed(encode_request(header, keys(501))))
        stage.joined.until(lambda: bool(client.frames), 60_000)
        found, answer = decode_response(10, version, client.frames.pop(0))
        codes = [one.error_code for one in answer.coordinators]
        assert (found, codes) == (number, [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 501)


def test_others_are_answered_in_between() -> None:
    stage = with_topics()
    slow, quick = stage.client(1), stage.client(1)
    slow.send(topics(f"t{n}" for n in range(5_000)), 8)
    slow.send(m.MetadataRequest(topics=None), 12)
    quick.send(m.ApiVersionsRequest(), 0)
    stage.joined.settle()
    assert (len(quick.frames), len(slow.frames)) == (1, 0)
    stage.joined.until(lambda: bool(slow.frames))
    assert len(slow.frames) == 2, "answers have an order"


@pytest.mark.parametrize("local", [False, True])
def test_a_long_answer_of_the_controller_is_read_and_joined_in_slices(
    local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with what the broker itself has refused: an answer for each, in their order."""
    stage, many, read = with_topics(), 2_000, list[int]()
    kind = m.IncrementalAlterConfigsRequest
    config = kind.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    names = ["a", *(f"t{number}" for number in range(many)), *["b"] * 2 * local]
    asked = kind(
        resources=[
            kind.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
            for name in names
        ]
    )

    def decoded(key: int, version: int, frame: bytes) -> Any:
        read.append(len(frame))
        return decode_response(key, version, frame)

    monkeypatch.setattr(forwarding, "decode_response", decoded)
    answer = stage.client(1).ask(asked, 1)
    assert [one.resource_name for one in answer.responses] == names
    wrong = [42] * 2 * local
    assert [one.error_code for one in answer.responses] == [0, *[3] * many, *wrong]
    assert max(read, default=0) < SLICED_BYTES


@pytest.mark.parametrize("more", [0, 3, 300, 2_000])
def test_changes_of_one_connection_are_made_in_their_order(more: int) -> None:
    """Whichever of them takes many steps: the last one counts."""
    stage = with_topics()

    def change(value: str, others: int) -> m.IncrementalAlterConfigsRequest:
        names = ["a", *(f"t{number}" for number in range(others))]
        return alter_config(TOPIC, "retention.ms", value, *names)

    def frame(request: object, number: int) -> bytes:
        header = RequestHeader(api_key=44, api_version=1, correlation_id=number, client_id="x")
        return framed(encode_request(header, request))

    client, node = stage.client(1), stage.parties[1].machine
    changes = [change("1", more), change("2", 0), change("3", more), change("4", 0)]
    data = b"".join(frame(one, number) for number, one in enumerate(changes))
    stage.joined.send(client.conn, data)
    stage.joined.until(lambda: len(client.frames) == len(changes))
    stage.joined.wait(2_000)
    assert isinstance(node, BrokerNode)
    assert node.side.cluster.image.config(TOPIC, "a") == {"retention.ms": "4"}
    assert node.deadline_ms != 0, "nothing is left"


def test_many_who_ask_for_much_have_a_part_each_in_turn() -> None:
    stage = with_topics()
    (broker,) = [stage.parties[1].machine]
    clients = [stage.client(1) for _ in range(3)]
    for client in clients:
        client.send(keys(2_000), 4)
    stage.joined.until(lambda: all(client.frames for client in clients))
    stage.joined.wait(10)
    assert broker.deadline_ms != 0, "nothing is left"


def test_a_client_that_leaves_is_not_answered_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = with_topics()
    made: list[int] = []
    add = in_parts.DividedAnswer.add
    monkeypatch.setattr(
        in_parts.DividedAnswer, "add", lambda self, part: (made.append(1), add(self, part))
    )
    client = stage.client(1)
    data = encode_request(
        RequestHeader(api_key=10, api_version=4, correlation_id=1, client_id="x"), keys(9_000)
    )
    broker = stage.parties[1].machine
    stage.joined.send(client.conn, framed(data))
    stage.joined.end(client.conn, "gone")
    stage.joined.wait(10)
    assert len(made) <= 1
    assert broker.deadline_ms != 0


def test_of_one_connection_few_large_requests_are_taken_at_a_time() -> None:
    stage = with_topics()
    broker: Any = stage.parties[1].machine
    client = stage.client(1)
    most = 0
    go_on = broker._under_way.go_on

    def watched(guarded: Any) -> Any:
        nonlocal most
        most = max(most, sum(map(len, broker._under_way._of.values())))
        return go_on(guarded)

    broker._under_way.go_on = watched
    for _ in range(30):
        client.send(keys(9_000), 4)
    client.send(m.ApiVersionsRequest(), 0)
    stage.joined.until(lambda: len(client.frames) == 31)
    assert 1 <= most <= 3
    stage.joined.wait(10)
    assert broker.deadline_ms != 0


def test_what_fails_in_a_later_part_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = with_topics()
    real, seen = metadata.metadata, []

    def fails(*arguments: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:
            raise RuntimeError("a fault of ours")
        return real(*arguments)

    api = served()[3]
    changed = registry.ServedApi(3, api.request, fails, api.refused, api.division)
    monkeypatch.setitem(registry._SERVED, 3, changed)
    client = stage.client(1)
    answer = client.ask(topics(f"t{n}" for n in range(MANY)), 8)
    assert {one.error_code for one in answer.topics} == {-1}
    assert len(answer.topics) == MANY
    assert client.ask(topics(["a"]), 8).topics[0].error_code == 0, "the connection goes on"


@pytest.mark.parametrize("count", [ENTRIES_MAX, ENTRIES_MAX + 1])
def test_a_request_with_too_many_entries_is_refused_before_they_are_made(count: int) -> None:
    stage = Stage()
    stage.running(1)
    client = stage.client(1)
    client.send(m.DescribeGroupsRequest(groups=[""] * count), 5)
    stage.joined.settle()
    assert client.open == (count <= ENTRIES_MAX)
    if not client.open:
        (said,) = [log for log in stage.parties[1].logs if "invalid request" in log.event]
        assert "over 10000 entries" in str(said.fields["why"])


@pytest.mark.parametrize("count", [DIVIDED_ENTRIES_MAX, DIVIDED_ENTRIES_MAX + 1])
def test_what_is_answered_in_parts_may_name_more(count: int) -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    client: Asker = stage.client(1)
    client.send(keys(count, kind=1), 4)
    stage.joined.until(lambda: bool(client.frames) or not client.open)
    assert client.open == (count <= DIVIDED_ENTRIES_MAX)
    assert not broker.failures.total


def test_only_requests_of_controllers_may_have_millions_of_entries() -> None:
    bounds = entries_max(dict.fromkeys(range(76), (0, 0)))
    assert len(bounds) == 76
    assert {key for key, most in bounds.items() if most > DIVIDED_ENTRIES_MAX} == {4, 5, 6}
    divided = {spec(one.request).name for one in served().values() if one.division is not None}
    assert divided == {"MetadataRequest", "FindCoordinatorRequest", "DescribeConfigsRequest"}


def test_long_names_make_small_parts() -> None:
    long = "x" * 20_000
    assert [len(run) for run in runs([long, "a", long, "b", long * 2], 100, str)] == [2, 2, 1]
    assert [*runs([], 3, str)] == []
    assert 2 * len(long) > CHARACTERS_MAX


def test_a_request_of_a_controller_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CONTROL_ENTRIES_MAX", 1_000)
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1)
    for count in (1_000, 1_001):
        brokers = [live(1)] * ((count - 1) // 2)
        left = count - 2 * len(brokers)
        request = update(brokers=brokers, controller=5, epoch=7)
        request.topic_states = [
            m.UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=f"t{n}")
            for n in range(left)
        ]
        client = stage.client(1)
        client.send(request, 8)
        stage.joined.settle()
        assert client.open == (count <= 1_000)
