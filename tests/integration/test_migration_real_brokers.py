"""Three unmodified 3.9.2 brokers, migrated once by our controller, seen from many sides."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.judge.stores import from_log, from_tree
from emulator.trace.metrics import METRICS
from tests.integration.looking import (
    CLAIMED,
    dual_writing,
    envelopes,
    last_registration,
    the_claim,
    written,
    zk_ops,
)
from tests.integration.migrated import LIFE, OLD_EPOCH, PAUSED, ROLLED, folders
from tests.integration.zookeeper_frames import CREATE, SET_DATA, decode
from wire import messages as m
from wire.codec import decode as decode_message
from wire.errors import ErrorCode
from wire.frame import split_request

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

BROKERS = (0, 1, 2)
NODE = 3000
IBP_LEVEL = 21
EXISTS, GET_DATA = 3, 4
CHECK_S = 5.0
"""Whether the migration may begin is looked at again after that at most."""
SESSION_S = 9.0


def waiting(status):
    return {one["subject"]: one["text"] for one in status["migration"]["waiting"]}


# --- before the claim


@pytest.mark.requirement("A02")
def test_before_the_take_over_brokers_name_zookeepers_controller(story):
    assert story.seen["controllers_before"] == [story.seen["controller_before"]["brokerid"]] * 3


@pytest.mark.requirement("P06", "Q01")
def test_it_waits_for_every_known_broker_and_says_where_each_is_known_from(story):
    missing = waiting(story.seen["waiting_for_all"])
    assert set(missing) == {"0", "1", "2"}
    for text in missing.values():
        assert "/brokers/ids" in text
        assert "replica assignments" in text
    assert ["/config/brokers" in missing[id_] for id_ in "012"] == [False, True, True]


@pytest.mark.requirement("C02", "T02", "V08")
def test_a_broker_without_the_flag_is_named_and_holds_the_migration(story):
    status = story.seen["waiting_for_plain"]
    assert status["migration"]["driver_state"] == "WAIT_FOR_BROKERS"
    assert [one["id"] for one in status["brokers"] if not one["fenced"]] == [0, 1]
    [(subject, text)] = waiting(status).items()
    assert subject == "2"
    assert "/brokers/ids" in text
    assert "zookeeper.metadata.migration.enable=true" in text


@pytest.mark.requirement("T04", "P02", "Q02")
def test_a_broker_that_only_assignments_know_blocks_the_start_by_name(story):
    [(subject, text)] = waiting(story.seen["waiting_for_absent"]).items()
    assert subject == "2"
    assert "replica assignments" in text
    assert "/brokers/ids" not in text


@pytest.mark.requirement("T07")
def test_while_it_waits_it_leaves_the_controller_znodes_alone(story):
    registered = last_registration(story)
    before = written(one for one in zk_ops(story.zk_tap) if one[0] < registered)
    assert not before & {*CLAIMED}
    assert "/migration" in before


@pytest.mark.requirement("T06", "P08")
def test_controllers_that_were_prepared_first_migrate_when_the_brokers_come(story):
    """The other order is in test_migration_3_4.py."""
    assert story.seen["prepared_first"] == {"brokers": [False] * 3, "controller": True}
    alone = story.seen["waiting_for_all"]
    assert alone["brokers"] == []
    assert alone["migration"]["driver_state"] != "DUAL_WRITE"
    dual_writing(story.seen["dual_write"], brokers=3)
    for store in story.seen["stores"]:
        assert "made" in store.topics, "a change of afterwards is in both"


@pytest.mark.requirement("P07", "R09")
def test_it_claims_within_the_interval_of_its_checks_after_the_last_registration(story):
    registered = last_registration(story)
    # At once, by the registration: within the second of a quiet machine, and within the interval
    # on any.
    soon_s = max(1.0, 10 * story.seen["look_s"])
    assert 0 < the_claim(story)[0][0] - registered < min(CHECK_S, soon_s)


@pytest.mark.requirement("S06")
def test_a_controller_in_zookeeper_mode_reports_4(story):
    """As docs/status.md says; every broker has the bean, whether it is the controller or not."""
    assert re.search(r":Value\"\n\d+,4$", story.seen["state_by_jmx"].strip())


# --- the claim and the copy


@pytest.mark.requirement("G06")
def test_what_goes_to_zookeeper_is_in_the_log_already(story):
    """The offset that each multi names, beside the log's files as the multi was on its way."""
    named = [
        (op.json["kraft_metadata_offset"], end)
        for frame, end in story.log_ends
        for op in decode(frame)[1]
        if op.code == SET_DATA and op.path == "/migration"
    ]
    assert len(named) > 20
    assert [(offset, end) for offset, end in named if offset > end] == []
    assert max(offset for offset, _ in named) > 100


@pytest.mark.requirement("P10")
def test_the_claim_comes_before_the_copy_reads(story):
    [(claimed, ops)] = the_claim(story)
    [created] = [op for op in ops if op.path == "/controller" and op.code == CREATE]
    assert created.json["brokerid"] == NODE
    assert created.version == 0, "flags: persistent"
    reads = [
        (at, op.path)
        for at, _, ops in zk_ops(story.zk_tap)
        for op in ops
        if op.code == GET_DATA and re.fullmatch(r"/brokers/topics/.*/state", op.path)
    ]
    after = {path for at, path in reads if at > claimed}
    assert "/brokers/topics/kept/partitions/5/state" in after


@pytest.mark.requirement("E02", "E03", "E04", "Z06")
def test_the_controller_znode_is_ours_persistent_and_of_a_version_brokers_parse(story):
    data, stat = story.seen["controller_after"]
    value = json.loads(data)
    assert value["version"] == 2
    assert value["brokerid"] == NODE
    assert value["kraftControllerEpoch"] == 1
    assert stat.ephemeralOwner == 0
    assert story.look.get("/controller")[1].czxid == stat.czxid, "it outlives a killed controller"
    [(claimed, _)] = the_claim(story)
    for tap in story.broker_zk_taps:
        frames = [(at, frame) for at, frame in tap.kept if at >= claimed]
        looked = [
            f for _, f in frames if f[4:8] == EXISTS.to_bytes(4, "big") and b"/controller" in f
        ]
        assert looked, "the watch on /controller fired"


@pytest.mark.requirement("E05")
def test_no_broker_claims_it_while_there_is_no_controller(story):
    """For longer than the sessions of ours and of a broker, which looks when it has a new one."""
    assert story.seen["asked_alone"]
    assert story.seen["controller_later"] == story.seen["controller_left"]
    [controller, _] = story.seen["controller_left"]
    assert json.loads(controller[0])["brokerid"] == NODE
    [(claimed, _)] = the_claim(story)
    for broker, tap in zip(story.cluster.brokers, story.broker_zk_taps, strict=True):
        wrote = written(one for one in zk_ops(tap) if one[0] > claimed)
        assert not wrote & {*CLAIMED}, broker.id


@pytest.mark.requirement("E06", "E08")
def test_the_epoch_rises_by_one_in_one_write(story):
    before, old = story.seen["epoch_before"]
    after, new = story.seen["epoch_after"]
    assert int(after) == int(before) + 1 > OLD_EPOCH
    assert new.version == old.version + 1


@pytest.mark.requirement("P09")
def test_the_copy_holds_as_many_entities_as_zookeeper_did(story):
    tree = from_tree(story.seen["tree_before"])
    copy = from_log(story.copied)
    del tree.topics["leaving"], tree.configs["topics/leaving"]
    assert tree.topics.keys() == copy.topics.keys() >= {"kept", "two", "alone"}
    for name, topic in tree.topics.items():
        assert topic["id"] == copy.topics[name]["id"]
        assert topic["partitions"].keys() == copy.topics[name]["partitions"].keys()
    assert tree.configs == copy.configs
    assert copy.configs["topics/kept"] == {"retention.ms": "1234567", "cleanup.policy": "compact"}
    assert {"brokers/1", "brokers/<default>"} <= copy.configs.keys()
    assert tree.next_producer_id == copy.next_producer_id


@pytest.mark.requirement("S04")
def test_the_state_is_migration_from_the_end_of_the_copy(story):
    states = [
        r["data"]["zkMigrationState"] for r in story.records if "MIGRATION_STATE" in r["type"]
    ]
    assert states == [2, 1]
    metrics = {
        sample.name: sample.value
        for family in text_string_to_metric_families(story.seen["metrics"])
        for sample in family.samples
    }
    assert metrics["kraft_bridge_zk_migration_state"] == 1
    assert story.seen["status_at_the_end"]["migration"]["migration_state"] == "MIGRATION"


@pytest.mark.requirement("M04")
def test_every_documented_metric_is_there(story):
    # Nothing of the kind happened in this story: no handler raised, at the end no broker is
    # refused, no trace is written.
    without = {
        "kraft_bridge_refused_brokers",
        "kraft_bridge_request_failures",
        "kraft_bridge_trace_rows",
        "kraft_bridge_trace_missing_seconds",
        "kraft_bridge_trace_missing_rows",
        "kraft_bridge_trace_deleted_bytes",
    }
    families = list(text_string_to_metric_families(story.seen["metrics"]))
    sampled = {family.name for family in families if family.samples}
    assert {metric.name for metric in METRICS} - sampled <= without
    counted = {sample.name: sample.value for family in families for sample in family.samples}
    assert counted["kraft_bridge_metadata_type"] == 3
    for name in ("log_sync_ms_count", "request_latency_ms_count", "connections_accepted_total"):
        assert counted[f"kraft_bridge_{name}"] > 0, name


@pytest.mark.requirement("D01", "D02", "D03")
def test_a_pending_deletion_is_finished_everywhere(story):
    _, claimed = story.seen["controller_after"]
    assert story.seen["deletions_pzxid"] > claimed.czxid, "void: it was gone before the claim"
    tree, log = story.seen["stores"]
    assert "leaving" not in tree.topics.keys() | log.topics.keys()
    assert not [r for r in story.records if r["data"].get("name") == "leaving"]
    for path in ("/admin/delete_topics/leaving", "/config/topics/leaving"):
        assert story.look.exists(path) is None
    assert folders(story, "leaving") == []


# --- brokers at our listener


@pytest.mark.requirement("R08", "N02", "V09", "N03")
def test_brokers_register_as_migrating_at_exactly_their_inter_broker_protocol(story):
    asked = story.controller_tap.decoded
    registrations = [
        message
        for at, _, message in asked
        if isinstance(message, m.BrokerRegistrationRequest) and at < story.seen["rolled"]
    ]
    assert {one.broker_id for one in registrations} == set(BROKERS)
    for one in registrations:
        assert one.is_migrating_zk_broker
        [level] = [f for f in one.features if f.name == "metadata.version"]
        assert (level.min_supported_version, level.max_supported_version) == (IBP_LEVEL,) * 2


def test_no_reason_to_wait_says_that_a_broker_is_fenced(story):
    """That it claims while brokers are fenced is shown in tests/unit/migration/test_driver.py."""
    [(claimed, _)] = the_claim(story)
    assert last_registration(story) < claimed
    reasons = [
        reason
        for name in ("waiting_for_all", "waiting_for_plain", "waiting_for_absent")
        for reason in story.seen[name]["migration"]["waiting"]
    ]
    assert reasons
    assert not [reason for reason in reasons if "fenced" in reason["text"]]


@pytest.mark.requirement("N05")
def test_a_broker_that_stops_its_heartbeats_is_fenced_after_the_session(story):
    beats = {one.broker_id for one in story.controller_tap.of(m.BrokerHeartbeatRequest)}
    assert beats == set(BROKERS)
    last = max(
        at
        for at, _, message in story.controller_tap.decoded
        if isinstance(message, m.BrokerHeartbeatRequest)
        and message.broker_id == PAUSED
        and at < story.seen["fenced_at"]
    )
    assert story.seen["fenced_at"] - last > SESSION_S
    shape = story.seen["shape_while_paused"]
    assert shape.led()[PAUSED] == 0
    shared = [isr for _, replicas, isr in shape.partitions if len(replicas) > 1]
    assert all(PAUSED not in isr for isr in shared)


@pytest.mark.requirement("O02")
def test_before_the_claim_brokers_register_and_their_heartbeats_are_answered(story):
    [(claimed, _)] = the_claim(story)
    early = {
        (header.api_key, message.broker_id)
        for at, header, message in story.controller_tap.decoded
        if at < claimed and header.api_key in LIFE
    }
    assert early >= {(62, 0), (62, 1), (62, 2), (63, 0), (63, 1)}, "the last one starts the claim"
    said = story.controller_tap.answered()
    registered = [answer for _, asked, answer in said if asked.broker_id == 0][:1]
    assert [answer.error_code for answer in registered] == [ErrorCode.NONE]
    assert [one["id"] for one in story.seen["waiting_for_plain"]["brokers"]] == [0, 1]


@pytest.mark.requirement("A04")
def test_a_controlled_shutdown_comes_straight_to_the_controllers_listener(story):
    """A migrating broker asks for it in its heartbeats; an Envelope never holds one."""
    asked = {
        one.broker_id
        for at, _, one in story.controller_tap.decoded
        if isinstance(one, m.BrokerHeartbeatRequest)
        and one.want_shut_down
        and at > story.seen["rolled"]
    }
    assert asked == {ROLLED}
    granted = [
        answer
        for _, one, answer in story.controller_tap.answered()
        if isinstance(one, m.BrokerHeartbeatRequest) and answer.should_shut_down
    ]
    assert granted
    assert not {header.api_key for header, _, _ in envelopes(story)} & LIFE


@pytest.mark.requirement("A04", "A06")
def test_isr_changes_come_straight_to_the_controllers_listener(story):
    assert story.controller_tap.proxy.connections >= 6
    changes = story.controller_tap.of(m.AlterPartitionRequest)
    assert {one.broker_id for one in changes} >= {0, 1}
    forwarded = {header.api_key for header, _, _ in envelopes(story)}
    assert not forwarded & {7, 56}


@pytest.mark.requirement("A08", "I08")
def test_an_admin_request_arrives_in_an_envelope_with_its_sender(story):
    found = {
        topic.name: (header, envelope)
        for header, message, envelope in envelopes(story)
        if isinstance(message, m.CreateTopicsRequest)
        for topic in message.topics
    }
    header, envelope = found["made"]
    assert header.client_id == "demo"
    assert envelope.client_host_address == bytes([127, 0, 0, 1])
    principal = decode_message(m.DefaultPrincipalData, 0, envelope.request_principal[2:])
    assert (principal.type, principal.name) == ("User", "ANONYMOUS")
    inner, body = split_request(envelope.request_data)
    assert (inner.api_key, inner.api_version) == (19, 7)
    assert b"made" in body
    assert not [
        x for x in story.controller_tap.of(m.CreateTopicsRequest) if x.topics[0].name == "made"
    ]


@pytest.mark.requirement("A03")
def test_in_dual_write_any_live_broker_may_be_named_as_controller(story):
    named = story.seen["controllers_after"]
    assert named <= set(BROKERS)
    assert len(named) > 1


@pytest.mark.requirement("A07")
def test_the_flag_tells_a_broker_which_kind_of_controller_it_has(story):
    told = story.seen["controller_by_flag"]
    error, controller = told[False]
    assert error == 0
    assert controller not in BROKERS, "3000 taken for a broker: nobody can be asked"
    error, controller = told[True]
    assert error == 0
    assert controller in BROKERS


@pytest.mark.requirement("I24")
def test_one_broker_forwards_all_on_one_connection(story):
    """Broker 1 runs from the beginning of the migration to its end."""
    tap = story.controller_tap
    on = [
        connection
        for connection, (_, header, message) in zip(tap.came_on, tap.decoded, strict=True)
        if isinstance(message, m.EnvelopeRequest) and header.client_id == "1"
    ]
    assert len(on) >= len(story.seen["asked_for"])
    assert len(set(on)) == 1


# --- what brokers are told


@pytest.mark.requirement("V04")
def test_control_requests_have_the_versions_of_3_4_and_later(story):
    sent = {
        (header.api_key, header.api_version)
        for tap in story.broker_taps
        for _, header, _ in tap.decoded
        if header.client_id == str(NODE)
    }
    assert sent == {(4, 7), (5, 4), (6, 8)}


@pytest.mark.requirement("R01", "L04")
def test_every_control_request_says_that_it_is_from_a_kraft_controller(story):
    [(claimed, _)] = the_claim(story)
    kinds = set()
    for tap in story.broker_taps:
        for at, header, message in tap.decoded:
            if header.client_id == str(NODE):
                assert at > claimed
                assert message.is_kraft_controller
                kinds.add(type(message))
    assert kinds == {m.LeaderAndIsrRequest, m.UpdateMetadataRequest, m.StopReplicaRequest}


@pytest.mark.requirement("L05")
def test_their_epoch_is_the_claimed_one_above_every_zookeeper_controllers(story):
    claimed = int(story.seen["epoch_after"][0])
    ours, theirs = set(), set()
    for tap in story.broker_taps:
        for _, header, message in tap.decoded:
            (ours if header.client_id == str(NODE) else theirs).add(message.controller_epoch)
    assert ours == {claimed}
    assert max(theirs) < claimed


@pytest.mark.requirement("P16")
def test_brokers_learn_of_the_controller_by_update_metadata(story):
    for broker, tap in zip(story.cluster.brokers, story.broker_taps, strict=True):
        first = next(x for _, h, x in tap.decoded if h.client_id == str(NODE))
        assert isinstance(first, m.UpdateMetadataRequest)
        assert (first.controller_id, first.is_kraft_controller) == (NODE, True)
        epoch = int(story.seen["epoch_after"][0])
        line = f"UpdateMetadata request sent by controller {NODE} epoch {epoch}"
        assert line in broker.log.read_text()


@pytest.mark.requirement("N06")
def test_brokers_learn_of_each_other_with_every_listener(story):
    for tap in story.broker_taps:
        last = [u for u in tap.of(m.UpdateMetadataRequest) if u.controller_id == NODE][-1]
        assert {
            one.id: sorted(endpoint.listener for endpoint in one.endpoints)
            for one in last.live_brokers
        } == {broker: ["CLIENT", "INTERNAL"] for broker in BROKERS}


@pytest.mark.requirement("P15")
def test_brokers_accept_what_they_are_told(story):
    said = story.bridge.out.read_text()
    assert "broker answered a control request with errors" not in said
    assert "broker failed a full" not in said
    for tap in story.broker_taps:
        answered = [one for one in tap.answered() if one[0].client_id == str(NODE)]
        assert {header.api_key for header, _, _ in answered} >= {4, 6}
        for _, asked, answer in answered:
            assert answer.error_code == ErrorCode.NONE, (asked, answer)
            assert not [one for one in partitions(answer) if one.error_code], (asked, answer)


def partitions(answer):
    """Of a response to a control request."""
    if isinstance(answer, m.LeaderAndIsrResponse):
        return [one for topic in answer.topics for one in topic.partition_errors]
    return getattr(answer, "partition_errors", [])


@pytest.mark.requirement("M05")
def test_the_gauge_of_migrating_brokers_falls_when_one_returns_in_kraft_mode(story):
    def count(page):
        return next(
            sample.value
            for family in text_string_to_metric_families(story.seen[page])
            for sample in family.samples
            if sample.name == "kraft_bridge_migrating_zk_broker_count"
        )

    assert (count("metrics_before_the_roll"), count("metrics_after_the_roll")) == (3, 2)


@pytest.mark.requirement("N01")
def test_brokers_of_both_kinds_are_known_by_what_they_registered_and_listed_alike(story):
    kinds = {
        one.broker_id: one.is_migrating_zk_broker
        for one in story.controller_tap.of(m.BrokerRegistrationRequest)
    }
    assert kinds == {broker: broker != ROLLED for broker in BROKERS}
    for answer in story.seen["described"]:
        assert {one.broker_id for one in answer.brokers} == set(BROKERS)


@pytest.mark.requirement("L01", "P17")
def test_changes_of_leader_isr_and_topics_work_on_the_brokers(story):
    shape = story.seen["shape_while_paused"]
    assert set(shape.topics["made"]) == set(range(5))
    assert "doomed" not in shape.topics
    led = {
        (topic.topic_name, p.partition_index): p.leader
        for request in story.broker_taps[0].of(m.LeaderAndIsrRequest)
        if request.controller_id == NODE
        for topic in request.topic_states
        for p in topic.partition_states
        if PAUSED not in p.isr
    }
    moved = {
        (name, number)
        for name, topic in shape.topics.items()
        for number, (leader, replicas, _) in topic.items()
        if 0 in replicas and PAUSED in replicas and leader >= 0
    }
    assert moved
    assert moved <= led.keys()
    assert all(shape.topics[name][number][0] == led[name, number] for name, number in moved)
    assert folders(story, "doomed") == []


@pytest.mark.requirement("L02")
def test_clients_of_every_broker_see_a_change_soon(story):
    assert story.seen["shown_after_s"] < max(3, 30 * story.seen["look_s"])
    for tap in story.broker_taps:
        told = [
            topic.topic_name
            for request in tap.of(m.UpdateMetadataRequest)
            if request.controller_id == NODE
            for topic in request.topic_states
        ]
        assert "made" in told
