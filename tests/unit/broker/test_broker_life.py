"""The life of a broker in KRaft mode: registration, the end of it, and what its mode means."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emulator.broker import introspection, lifecycle
from emulator.broker.kraft import side
from emulator.broker.lifecycle import (
    NEXT,
    SHUTDOWN_MS_MAX,
    LifecycleManager,
    LifeEvent,
    LifeSettings,
    LifeState,
)
from emulator.commands.status import show
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.seam import Halt, Send
from emulator.trace.exposition import exposition
from tests.kit.requests import allow, create_topics, metadata
from tests.kit.tables import Watched, check_pairs
from tests.unit.broker.controller_end import ControllerEnd, channel
from tests.unit.broker.joined_brokers import CONTROLLER, Stage
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import RELEASES

ENVELOPE = 58
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FIELDS = tomllib.loads((Path(__file__).parents[3] / "tools" / "status.toml").read_text())


def scrape(broker: Any, stage: Stage) -> dict[str, float]:
    """Samples by name and labels."""
    text = exposition(introspection.metrics(broker, stage.joined.now_ms), active=True)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def raise_level(stage: Stage, level: int) -> None:
    """The metadata.version, by UpdateFeatures through broker 1."""
    kind = m.UpdateFeaturesRequest
    update = kind.FeatureUpdateKey(feature=FEATURE_NAME, max_version_level=level, upgrade_type=1)
    answer = stage.client(1).ask(kind(feature_updates=[update], timeout_ms=10_000), 1)
    assert answer.error_code == 0, answer


def halted(stage: Stage, node_id: int) -> Halt:
    """The end of a broker."""
    stage.joined.until(lambda: stage.parties[node_id].halt is not None)
    found = stage.parties[node_id].halt
    assert found is not None
    return found


# ---------------------------------------------------------------- the end
def test_a_controlled_shutdown_moves_the_leaders_first() -> None:
    stage = Stage()
    one, _two = stage.running(1, 2)
    stage.client(2).ask(create_topics("t", partitions=4, factor=2), 7)
    party = stage.parties[1]
    stage.joined.perform(party, one.shutdown(stage.joined.now_ms))
    stage.joined.until(lambda: party.halt is not None)
    assert (party.halt.exit_code, party.halt.why) == (0, "stopped; the controller granted it")
    stage.joined.wait(1_000)
    (found,) = stage.client(2).ask(metadata("t"), 12).topics
    assert {partition.leader_id for partition in found.partitions} == {2}


OWN = LifeSettings(
    broker_id=1,
    cluster_id="c",
    incarnation_id=bytes(16),
    listeners=(),
    features={},
    rack=None,
    log_dirs=(),
    heartbeat_ms=2_000,
    session_ms=9_000,
    registration_ms=60_000,
)


def test_a_registration_that_is_answered_during_a_shutdown_leaves_its_time_as_it_is() -> None:
    life = LifecycleManager(OWN, channel(), lambda: 0, lambda: True)
    end = ControllerEnd(life)
    end.run()
    end.answer(m.BrokerRegistrationResponse(broker_epoch=5))
    end.answer(m.BrokerHeartbeatResponse(is_caught_up=True))
    end.answer(m.BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert life.state is LifeState.RUNNING
    life.register_again(end.now_ms)
    end.run()
    assert isinstance(end.last, m.BrokerRegistrationRequest)
    life.shut_down(end.now_ms, controlled=True)
    end.answer(m.BrokerRegistrationResponse(broker_epoch=6))
    assert end.last.want_shut_down
    end.at_once = lambda *_: m.BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    end.answer(m.BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    end.wait(SHUTDOWN_MS_MAX + 1)
    assert life.over == (1, "stopped; the controller did not grant a controlled shutdown")


def test_each_refusal_has_it_wait_twice_as_long_up_to_the_session() -> None:
    life = LifecycleManager(OWN, channel(), lambda: 0, lambda: True)
    end = ControllerEnd(life)
    end.run()
    waits = []
    for _ in range(8):
        end.answer(m.BrokerRegistrationResponse(error_code=101))
        assert life.deadline_ms is not None
        waits.append(life.deadline_ms - end.now_ms)
        end.wait(waits[-1])
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 6_400, 9_000]


def test_a_second_signal_ends_it_at_once() -> None:
    stage = Stage()
    (one,) = stage.running(1)
    stage.joined.leave(stage.controller)
    party = stage.parties[1]
    stage.joined.perform(party, one.shutdown(stage.joined.now_ms))
    stage.joined.wait(60_000)
    assert party.halt is None, "it waits for the controller"
    stage.joined.perform(party, one.shutdown(stage.joined.now_ms))
    assert party.halt.exit_code == 1


def test_one_that_is_not_registered_yet_stops_at_once() -> None:
    stage = Stage()
    stage.joined.cut.add(CONTROLLER)
    one = stage.broker(1)
    party = stage.parties[1]
    stage.joined.perform(party, one.shutdown(stage.joined.now_ms))
    assert party.halt.exit_code == 0


@pytest.mark.requirement("N07")
def test_an_id_that_is_taken_is_refused_until_the_time_is_over_and_ends_it() -> None:
    stage = Stage()
    stage.running(1)
    twin = stage.parties.pop(1)
    stage.broker(1, listeners="PLAINTEXT://other:9092")
    stage.joined.wait(59_000)
    party = stage.parties[1]
    assert party.halt is None
    stage.joined.wait(2_000)
    assert party.halt.exit_code == 1
    assert "DUPLICATE_BROKER_REGISTRATION" in party.halt.why
    assert twin.halt is None


def test_one_that_may_do_nothing_ends_with_both_reasons() -> None:
    stage = Stage(authorizer_class_name=AUTHORIZER)
    stage.broker(1)
    stage.joined.wait(61_000)
    halt = stage.parties[1].halt
    assert halt.exit_code == 1
    assert "the metadata log is refused: CLUSTER_AUTHORIZATION_FAILED" in halt.why


@pytest.mark.requirement("J09")
def test_a_metadata_version_that_it_does_not_support_unregisters_and_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(level=8)
    stage.running(1)
    stage.running(2, kraftbridge_release="3.8")
    # The controller raises the level only if every broker has said that it supports it.
    real, fewer = side.supported_features, {"3.8": {FEATURE_NAME: (1, 11)}}
    monkeypatch.setattr(side, "supported_features", lambda one: fewer.get(one) or real(one))
    raise_level(stage, 14)
    ended = halted(stage, 2)
    assert ended.exit_code == 1
    assert "metadata.version 14 is finalised" in ended.why
    stage.joined.wait(1_000)
    (image,) = stage.images_of(stage.parties[1].machine)
    assert set(image.brokers) == {1}, "not only fenced"


REGISTERED = {
    LifeState.STARTING: [m.BrokerRegistrationResponse(broker_epoch=5)],
    LifeState.RECOVERY: [m.BrokerHeartbeatResponse(is_caught_up=True)],
    LifeState.RUNNING: [m.BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)],
    LifeState.PENDING_CONTROLLED_SHUTDOWN: [],
}
"""State -> what the controller answers until it is reached, from the one before."""


def _life_in(state: LifeState) -> tuple[LifecycleManager, ControllerEnd]:
    """A broker in a state that needs a controller."""
    life = LifecycleManager(OWN, channel(), lambda: 0, lambda: True)
    end = ControllerEnd(life)
    end.run()
    for answers in [*REGISTERED.values()][: [*REGISTERED].index(state) + 1]:
        for answer in answers:
            end.answer(answer)
    if state is LifeState.PENDING_CONTROLLED_SHUTDOWN:
        life.shut_down(end.now_ms, controlled=True)
        end.run()
    assert life.state is state
    return life, end


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, lifecycle)
    ended = [LifecycleManager(OWN, channel(), lambda: 0, lambda: True)]
    ended[0].shut_down(0, controlled=False)
    for state in REGISTERED:
        life, end = _life_in(state)
        life.unregister("", end.now_ms)
        end.wait(10 * OWN.session_ms)
        ended.append(life)
        if state is not LifeState.PENDING_CONTROLLED_SHUTDOWN:
            stopped, end = _life_in(state)
            stopped.shut_down(end.now_ms, controlled=False)
            ended.append(stopped)
    granted, end = _life_in(LifeState.PENDING_CONTROLLED_SHUTDOWN)
    end.answer(m.BrokerHeartbeatResponse(should_shut_down=True))
    late, end = _life_in(LifeState.PENDING_CONTROLLED_SHUTDOWN)
    end.wait(SHUTDOWN_MS_MAX + 1)
    alone = LifecycleManager(OWN, channel(), lambda: 0, lambda: True)
    ControllerEnd(alone).wait(60_001)
    ended += [granted, late, alone]
    assert {one.state for one in ended} == {LifeState.SHUTTING_DOWN}
    assert all(one.over is not None for one in ended)
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    def after(state: LifeState, event: LifeEvent) -> LifeState:
        life = LifecycleManager(OWN, channel(), lambda: 0, lambda: True)
        life.state = state
        life._enter(event)
        return life.state

    check_pairs(NEXT, LifeState, LifeEvent, after)


@pytest.mark.requirement("J09")
@pytest.mark.parametrize("state", REGISTERED)
def test_whatever_it_was_doing_it_unregisters_once_it_is_registered(state: LifeState) -> None:
    assert set(LifeState) - REGISTERED.keys() == {LifeState.NOT_RUNNING, LifeState.SHUTTING_DOWN}
    life, end = _life_in(state)
    life.unregister("metadata.version 14 is finalised", end.now_ms)
    end.run()
    assert life.over is None
    if not isinstance(end.last, m.UnregisterBrokerRequest):
        end.answer(m.BrokerHeartbeatResponse(is_caught_up=True))  # it was under way
    assert end.last == m.UnregisterBrokerRequest(broker_id=1)
    end.answer(m.UnregisterBrokerResponse())
    assert life.over == (1, "metadata.version 14 is finalised")


def test_one_that_was_refused_ends_there_without_unregistering_the_holder_of_its_id() -> None:
    stage = Stage(level=8)
    (holder,) = stage.running(1)
    stage.broker(1, kraftbridge_release="3.5", listeners="PLAINTEXT://other:9092")
    stage.joined.wait(5_000)
    raise_level(stage, 14)
    ended = halted(stage, 1)
    assert ended.exit_code == 1
    assert "metadata.version 14 is finalised" in ended.why
    stage.joined.wait(1_000)
    (image,) = stage.images_of(holder)
    assert image.brokers[1].epoch == holder.side.broker_epoch


@pytest.mark.requirement("N09")
def test_one_whose_level_is_wrong_is_refused_and_ends_in_kraft_mode() -> None:
    """In ZooKeeper mode it asks on: see test_zookeeper_broker.py."""
    stage = Stage(level=14)
    stage.broker(1, kraftbridge_release="3.5")
    ended = halted(stage, 1)
    assert ended.exit_code == 1
    assert "metadata.version 14 is finalised" in ended.why
    (holder,) = stage.running(2)
    (image,) = stage.images_of(holder)
    assert set(image.brokers) == {2}


def test_directories_are_registered_when_the_metadata_version_knows_them() -> None:
    """Registered below 3.7-IV2 a broker has none in the metadata, and could not be assigned any."""
    stage = Stage(level=14)
    (broker,) = stage.running(1)
    (before,) = stage.images_of(broker)
    assert before.brokers[1].log_dirs == ()
    raise_level(stage, 21)
    stage.joined.wait(3_000)
    (after,) = stage.images_of(broker)
    assert after.brokers[1].log_dirs == (b"\x01" * 16,)
    assert not after.brokers[1].fenced
    assert after.brokers[1].epoch == broker.side.broker_epoch
    assert broker.side.running


# ---------------------------------------------------------------- what clients are shown
@pytest.mark.requirement("R05")
@pytest.mark.parametrize("release", RELEASES)
def test_clients_never_see_whether_a_migration_is_ready(release: str) -> None:
    stage = Stage(level=8)
    more = {"zookeeper_metadata_migration_enable": "true"}
    stage.running(1, kraftbridge_release=release, **more)
    answer = stage.client(1).ask(m.ApiVersionsRequest("a", "1"), 3)
    assert answer.zk_migration_ready is False
    assert not answer.unknown_tags
    assert {one.name for one in answer.supported_features} == {FEATURE_NAME}


@pytest.mark.requirement("C04")
def test_the_migration_setting_changes_no_byte_in_kraft_mode() -> None:
    def sent(**more: str) -> list[tuple[int, bytes]]:
        stage = Stage()
        taken: list[tuple[int, bytes]] = []
        perform = stage.joined.perform

        def watch(party: Any, effects: list[Any]) -> None:
            taken.extend(
                (effect.conn, effect.data)
                for effect in effects
                if isinstance(effect, Send) and party.name == "broker 1"
            )
            perform(party, effects)

        stage.joined.perform = watch  # type: ignore[method-assign]
        stage.running(1, **more)
        client = stage.client(1)
        client.ask(m.ApiVersionsRequest("a", "1"), 3)
        client.ask(create_topics("t"), 7)
        client.ask(m.MetadataRequest(topics=None), 12)
        stage.joined.wait(5_000)
        return taken

    plain = sent()
    assert len(plain) > 20
    assert sent(zookeeper_metadata_migration_enable="true") == plain
    assert sent(zookeeper_metadata_migration_enable="false") == plain


def test_versions_are_those_of_both_once_the_controller_is_known() -> None:
    """A broker of 3.9 offers Add- and RemoveRaftVoter, our controller does not."""
    stage = Stage()
    stage.running(1)
    client = stage.client(1)
    before = {one.api_key for one in client.ask(m.ApiVersionsRequest("a", "1"), 4).api_keys}
    assert {19, 80, 81} <= before
    client.ask(create_topics("t"), 7)
    after = {one.api_key for one in client.ask(m.ApiVersionsRequest("a", "1"), 4).api_keys}
    assert before - after == {80, 81}


# ---------------------------------------------------------------- metrics
@pytest.mark.requirement("M01", "I19", "I20", "I22")
def test_a_scrape_says_the_mode_the_forwarding_and_the_software_of_clients() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    found = scrape(broker, stage)
    assert found["kraft_bridge_broker_metadata_type"] == 2
    assert found["kafka_server_kafkaserver_metadatatype"] == 2
    assert found["kraft_bridge_broker_state"] == 3
    named, silent = stage.client(1), stage.client(1)
    named.ask(m.ApiVersionsRequest("librdkafka", "2.16.0"), 3)
    silent.ask(m.ApiVersionsRequest(), 0)
    silent.ask(create_topics("a"), 5)
    stage.joined.cut.add(CONTROLLER)
    stage.joined.leave(stage.controller)
    named.send(create_topics("b"), 5)
    named.send(create_topics("c"), 5)
    found = scrape(broker, stage)
    counted = "kraft_bridge_client_software_connections"
    label = 'client_software_name="{}",client_software_version="{}"'
    assert found[f"{counted}{{{label.format('librdkafka', '2.16.0')}}}"] == 1
    assert found[f"{counted}{{{label.format('unknown', 'unknown')}}}"] == 1
    assert found["kraft_bridge_num_messages_redirected_total"] == 3
    assert found["kraft_bridge_num_client_forwarding_to_controller_count"] == 1
    assert found["kraft_bridge_forwarding_queue_length"] == 2
    assert found["kraft_bridge_num_messages_redirected_rate"] == pytest.approx(0.1)


@pytest.mark.requirement("I22")
def test_a_client_that_names_itself_anew_is_counted_by_its_newest_name() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    client = stage.client(1)
    for name, version in (("librdkafka", "2.16.0"), ("wrapper", "1"), ("a b", "2")):
        client.ask(m.ApiVersionsRequest(name, version), 3)
    assert broker.clients.counted(1) == {("wrapper", "1"): 1}, "the last one is no name"


@pytest.mark.requirement("I19", "I20")
def test_as_many_messages_are_redirected_as_envelopes_came_to_the_controller() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    clients = [stage.client(1) for _ in range(3)]
    for number in range(7):
        clients[number % 3].send(create_topics(f"t{number}"), 7)
    clients[0].send(m.MetadataRequest(topics=None), 12)
    stage.joined.until(lambda: sum(len(one.frames) for one in clients) == 8)
    found = scrape(broker, stage)
    controller: Any = stage.controller.machine
    came = controller.connections.requests_total[ENVELOPE]
    assert found["kraft_bridge_num_messages_redirected_total"] == came == 7
    assert found["kraft_bridge_num_client_forwarding_to_controller_count"] == 0


@pytest.mark.requirement("I19", "I20", "I22")
def test_a_scrape_under_load_counts_each_waiting_client_once() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    clients = [stage.client(1) for _ in range(40)]
    for number, client in enumerate(clients):
        if number % 2:
            client.ask(m.ApiVersionsRequest("librdkafka", "2.16.0"), 3)
    stage.joined.cut.add(CONTROLLER)
    stage.joined.leave(stage.controller)
    for number in range(5):
        for client in clients[: 30 - number]:
            client.send(create_topics(f"{id(client)}-{number}"), 5)
    found = scrape(broker, stage)
    waiting = 30 + 29 + 28 + 27 + 26
    assert found["kraft_bridge_num_messages_redirected_total"] == waiting
    assert found["kraft_bridge_forwarding_queue_length"] == waiting
    assert found["kraft_bridge_num_client_forwarding_to_controller_count"] == 30
    assert found["kraft_bridge_num_client_forwarding_to_controller_rate"] == pytest.approx(1)
    assert found["kraft_bridge_num_messages_redirected_rate"] == pytest.approx(waiting / 30)
    software = [
        value for name, value in found.items() if name.startswith("kraft_bridge_client_software")
    ]
    assert software == [20, 20], "half of them said their name"
    stage.joined.wait(31_000)
    found = scrape(broker, stage)
    assert found["kraft_bridge_num_client_forwarding_to_controller_count"] == 0, "all timed out"
    assert found["kraft_bridge_num_messages_redirected_total"] == waiting


@pytest.mark.requirement("I15", "I21")
def test_a_scrape_counts_envelopes_that_the_controller_refuses() -> None:
    """The first entry for the cluster, about another, takes ClusterAction from this broker."""
    stage = Stage(authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true")
    (broker,) = stage.running(1)
    refused = "kraft_bridge_request_forwarding_to_controller_authorization_fail_total"
    entry = allow(Operation.CLUSTER_ACTION, "kafka-cluster", "User:bob", kind=ResourceType.CLUSTER)
    (done,) = stage.client(1).ask(entry, 3).results
    assert done.error_code == 0
    assert scrape(broker, stage)[refused] == 0
    (told,) = stage.client(1).ask(create_topics("t"), 7).topics
    assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scrape(broker, stage)[refused] == 1


def test_operations_on_topics_are_returned_only_if_they_are_asked_for() -> None:
    """Although the answer is made once for everybody where there is no authorizer."""
    stage = Stage()
    stage.running(1)
    client = stage.client(1)
    client.ask(create_topics("t"), 7)
    stage.joined.wait(1_000)
    found = []
    for wanted in (False, True, False):
        request = m.MetadataRequest(topics=None, include_topic_authorized_operations=wanted)
        (topic,) = client.ask(request, 12).topics
        found.append(topic.topic_authorized_operations == -(2**31))
    assert found == [True, False, True]


def test_status_is_json_and_says_where_it_stands() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    told = json.loads(json.dumps(introspection.status(broker)))
    assert told.pop("schema") == introspection.STATUS_SCHEMA
    types = {"int": int, "str": str, "bool": bool}
    assert {name: type(value) for name, value in told.items()} == {
        name: types[kind] for name, (kind, _meaning) in FIELDS["broker-status"].items()
    }
    assert (told["mode"], told["state"], told["controller"]) == (
        "kraft",
        "running",
        "controller:9093",
    )
    assert introspection.not_ready_because(broker) == ""
    late = stage.broker(2)
    assert "starting" in introspection.not_ready_because(late)
    assert late.side.state is LifeState.STARTING


# ---------------------------------------------------------------- the controller goes
@pytest.mark.requirement("I14")
def test_a_request_waits_for_a_controller_that_comes_back_and_not_for_ever() -> None:
    stage = Stage()
    stage.running(1)
    files = stage.controller.files
    stage.joined.leave(stage.controller)
    late = stage.client(1).ask(create_topics("never"), 7, ms=40_000)
    assert [one.error_code for one in late.topics] == [ErrorCode.REQUEST_TIMED_OUT]
    client = stage.client(1)
    client.send(create_topics("soon"), 7)
    stage.joined.wait(5_000)
    assert not client.frames
    stage.controller = stage.start_controller(files)
    stage.joined.until(lambda: bool(client.frames))
    stage.joined.wait(1_000)
    named = [m.MetadataRequest.MetadataRequestTopic(name="soon")]
    (found,) = stage.client(1).ask(m.MetadataRequest(topics=named), 12).topics
    assert found.error_code == 0


def test_status_is_printed_for_a_person() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    console = Console(record=True, width=120)
    show(json.dumps(introspection.status(broker)), console)
    text = console.export_text()
    assert "id 1, epoch" in text
    assert "KRaft, as Kafka 3.9" in text
    assert "controller:9093  changes are forwarded to it, 0 wait" in text


def test_a_client_that_hangs_up_while_the_controller_works_costs_nothing() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    files = stage.controller.files
    stage.joined.leave(stage.controller)
    for name in ("a", "b", "c"):
        client = stage.client(1)
        client.send(create_topics(name), 7)
        stage.joined.end(client.conn, "reset", tell=False)
        stage.joined.settle()
    assert broker.connections.open_count == 0
    stage.controller = stage.start_controller(files)
    stage.joined.until(lambda: not broker.forwarding.outstanding)
    stage.joined.wait(1_000)
    assert not broker.forwarding.counts.waiting
    assert broker.clients.counted(0) == {}
    told = stage.client(1).ask(m.MetadataRequest(topics=None), 12)
    assert {one.name for one in told.topics} == {"a", "b", "c"}, "as Kafka does, they are done"


def test_a_refused_registration_says_what_to_look_at() -> None:
    stage = Stage()
    stage.running(1)
    stage.broker(1)
    stage.joined.wait(1_000)
    (log,) = [one for one in stage.parties[1].logs if one.event == "the controller refuses"]
    assert log.fields["why"] == "registration refused: DUPLICATE_BROKER_REGISTRATION"
    assert "another node has this id" in str(log.fields["hint"])
