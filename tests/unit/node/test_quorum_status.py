"""The quorum in ``/status``, at every node: leader, lags, releases, who is not ready and why."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.migration.states import State
from emulator.node import introspection
from emulator.node.inquiry import EVERY_MS, RETRY_MS, VoterInquiry
from emulator.node.readiness import LATE_MS, not_ready_because
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import IDS, Quorum
from wire import messages as m
from wire.errors import ErrorCode


def shown(quorum: Quorum, node_id: int) -> dict[str, Any]:
    """The part of ``/status`` about the quorum."""
    found: dict[str, Any] = introspection.status(quorum.node(node_id), quorum.joined.now_ms)
    return dict(found["quorum"])


def voters(quorum: Quorum, node_id: int) -> dict[int, dict[str, Any]]:
    return {each["id"]: each for each in shown(quorum, node_id)["voters"]}


def why_not_ready(quorum: Quorum, node_id: int) -> str:
    return not_ready_because(quorum.node(node_id), quorum.joined.now_ms)


def test_every_node_shows_the_same_quorum():
    quorum = Quorum()
    leader = quorum.leader
    assert quorum.change(leader, "ann") == 0
    quorum.joined.wait(2 * EVERY_MS)
    for each in IDS:
        found = shown(quorum, each)
        assert (found["leader_id"], found["told_by"]) == (leader, leader)
        assert found["leader_epoch"] == quorum.node(leader).raft.leader_epoch
        assert found["state"] == ("leader" if each == leader else "follower")
        assert found["voter_state"] == "whole"
        assert found["not_told_because"] == ""
        rows = voters(quorum, each)
        assert set(rows) == set(IDS)
        for voter, row in rows.items():
            assert row["endpoint"] == f"host-{voter}:9093"
            assert (row["release"], row["metadata_versions"]) == ("3.9", "1-21")
            assert row["ready"]
            assert row["why_not"] == ""
            assert row["lag"] <= 1
            assert row["last_fetch"]
            assert row["last_caught_up"]
        assert rows[leader]["end_offset"] <= quorum.node(leader).raft.log_end_offset
        assert why_not_ready(quorum, each) == ""


def test_a_voter_that_is_down_is_named_by_the_leader_and_by_the_other_follower():
    quorum = Quorum()
    leader = quorum.leader
    dead, other = (each for each in IDS if each != leader)
    quorum.joined.wait(1_000)
    quorum.kill(dead)
    quorum.joined.wait(LATE_MS + EVERY_MS + 1_000)
    for each in (leader, other):
        row = voters(quorum, each)[dead]
        assert not row["ready"]
        assert "it cannot be reached: the connection was refused" in row["why_not"]
        assert "it has not fetched for 1" in row["why_not"]
        assert row["lag"] > 0
        assert all(one["ready"] for voter, one in voters(quorum, each).items() if voter != dead)
    quorum.start(dead)
    quorum.joined.wait(EVERY_MS + RETRY_MS)
    assert all(voters(quorum, each)[dead]["ready"] for each in IDS)


def test_a_lone_voter_is_up_and_says_whom_it_misses():
    quorum = Quorum()
    leader = quorum.leader
    lone, other = (each for each in IDS if each != leader)
    quorum.joined.wait(1_000)
    quorum.kill(leader)
    quorum.kill(other)
    quorum.joined.wait(10_000)
    assert quorum.parties[lone].halt is None
    why = why_not_ready(quorum, lone)
    assert "no leader is known: 2 of the 3 voters must reach each other" in why
    first, second = sorted((leader, other))
    assert f"no answer from {first}, {second}" in why
    found = shown(quorum, lone)
    assert (found["leader_id"], found["told_by"], found["as_of"]) == (None, None, None)
    assert found["not_told_because"] == "no leader is known"
    assert 5_000 < found["leaderless_ms"] <= 10_000
    rows = voters(quorum, lone)
    assert [rows[each]["ready"] for each in (lone, first, second)] == [False, False, False]
    assert {one["lag"] for one in rows.values()} == {None}
    assert rows[other]["release"] == "3.9", "it had said so before it died"
    quorum.start(other)
    quorum.joined.wait(10_000)
    assert {why_not_ready(quorum, each) for each in (lone, other)} == {""}
    assert {shown(quorum, each)["leaderless_ms"] for each in (lone, other)} == {None}


def test_voters_that_were_formatted_without_new_quorum_say_why_nobody_leads():
    """All run and reach each other; only the log said what to do."""
    quorum = Quorum()
    quorum.kill(*IDS)
    for each in IDS:
        quorum.files[each] = {
            path: data for path, data in quorum.files[each].items() if path == BOOTSTRAP_CHECKPOINT
        }
        quorum.start(each)
    quorum.joined.wait(20_000)
    for each in IDS:
        found = shown(quorum, each)
        assert (found["leader_id"], found["voter_state"]) == (None, "unknown")
        why = voters(quorum, each)[each]["why_not"]
        assert why == why_not_ready(quorum, each)
        assert "must reach each other; not a candidate: " in why
        assert "If the quorum is new, stop this node and run kraft-bridge format --new-q" in why


def test_a_follower_that_has_not_caught_up_is_not_ready():
    quorum = Quorum()
    leader = quorum.leader
    follower = next(each for each in IDS if each != leader)
    quorum.joined.wait(1_000)
    assert why_not_ready(quorum, follower) == ""
    quorum.kill(follower)
    quorum.start(follower)
    assert "no leader is known" in why_not_ready(quorum, follower) or (
        "not caught up" in why_not_ready(quorum, follower)
    )
    quorum.joined.wait(2_000)
    assert why_not_ready(quorum, follower) == ""
    # The leader answers, and what it says to be committed does not arrive.
    quorum.node(follower).raft.replica._leader_committed = 10**9
    quorum.joined.wait(LATE_MS + 1_000)
    assert "it has not caught up with the leader for 1" in why_not_ready(quorum, follower)


@pytest.mark.requirement("T05", "P05")
@pytest.mark.parametrize("level", [14, 21])
def test_a_voter_without_the_flag_delays_the_migration_and_every_node_names_it(level):
    quorum = MigratingQuorum(level=level)
    leader = quorum.leader
    plain = next(each for each in IDS if each != leader)
    quorum.kill(*IDS)
    # Written by a first leader with the flag; nothing is copied yet.
    quorum.without_flag.add(plain)
    for each in IDS:
        quorum.start(each)
    quorum.joined.wait(4_000)
    leader = quorum.leader
    assert leader != plain
    quorum.register()
    quorum.joined.wait(20_000)
    assert quorum.driver(leader).state is State.WAIT_FOR_CONTROLLER_QUORUM
    status = introspection.status(quorum.node(leader), quorum.joined.now_ms)
    (waiting,) = status["migration"]["waiting"]
    assert (waiting["why"], waiting["subject"]) == ("controller_not_ready", str(plain))
    assert "has no migration configured" in waiting["text"]
    for each in IDS:
        row = voters(quorum, each)[plain]
        assert not row["ready"]
        assert "migration" in row["why_not"]
        assert [one for one in IDS if not voters(quorum, each)[one]["ready"]] == [plain]
    quorum.kill(plain)
    quorum.without_flag.clear()
    quorum.start(plain)
    assert quorum.wait_for(State.DUAL_WRITE) in IDS
    assert all(one["ready"] for one in voters(quorum, leader).values())


@pytest.mark.requirement("T05")
def test_below_3_7_a_voter_that_was_never_reached_delays_the_migration():
    quorum = MigratingQuorum(level=14)
    leader = quorum.leader
    away = next(each for each in IDS if each != leader)
    quorum.kill(*IDS)
    for each in IDS:
        if each != away:
            quorum.start(each)
    leader = quorum.leader
    quorum.register()
    quorum.joined.wait(10_000)
    assert quorum.driver(leader).state is State.WAIT_FOR_CONTROLLER_QUORUM
    (waiting,) = quorum.driver(leader).status(quorum.joined.now_ms).waiting
    text = f"controller {away}: it has not answered yet: the connection was refused, or closed"
    assert waiting.reason.text == text
    quorum.start(away)
    assert quorum.wait_for(State.DUAL_WRITE) == quorum.leader


def test_controllers_of_3_4_do_not_ask_who_has_a_migration_configured():
    """ApiVersions of 3.4 has no tag, so they would wait for each other for ever."""
    quorum = MigratingQuorum(level=8, kraftbridge_release="3.4")
    quorum.register(version=1)
    assert quorum.wait_for(State.DUAL_WRITE) in IDS


# ---------------------------------------------------------------- the questions themselves


def answer(levels: tuple[int, int] | None = (1, 21), **more: Any) -> m.ApiVersionsResponse:
    kind = m.ApiVersionsResponse
    key = kind.SupportedFeatureKey
    features = (
        []
        if levels is None
        else [key(name="metadata.version", min_version=levels[0], max_version=levels[1])]
    )
    return kind(supported_features=features, **more)


@pytest.fixture
def raft() -> Any:
    """Node 3000 follows 3001."""
    config = SimpleNamespace(node_id=3000, voters=dict.fromkeys(IDS))
    return SimpleNamespace(config=config, leader_id=3001, leader_epoch=4)


def test_each_voter_is_asked_one_question_at_a_time(raft):
    others = [each for each in IDS if each != raft.config.node_id]
    inquiry = VoterInquiry(raft, others)
    asks = inquiry.poll(1_000)
    assert [each.node_id for each in asks] == others
    assert inquiry.poll(1_000_000) == []
    for ask in asks:
        inquiry.answered(ask, answer(), "", 1_100)
    (describe,) = inquiry.poll(1_100)
    assert (describe.node_id, type(describe.message)) == (raft.leader_id, m.DescribeQuorumRequest)
    inquiry.answered(describe, None, "no answer in time", 1_200)
    assert inquiry.account is None
    assert inquiry.account_failure == "no answer in time"
    assert inquiry.deadline_ms == 1_100 + EVERY_MS
    inquiry.answered(inquiry.poll(1_100 + EVERY_MS)[0], None, "", 9_000)
    assert inquiry.voters[others[0]].failure == "no answer"
    assert inquiry.deadline_ms == 9_000 + RETRY_MS


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (m.DescribeQuorumResponse(), "INVALID_REQUEST"),
        (
            m.DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "CLUSTER_AUTHORIZATION_FAILED",
        ),
        (
            m.DescribeQuorumResponse(
                topics=[
                    m.DescribeQuorumResponse.TopicData(
                        partitions=[m.DescribeQuorumResponse.PartitionData(error_code=6)]
                    )
                ]
            ),
            "NOT_LEADER_OR_FOLLOWER",
        ),
        (m.DescribeQuorumResponse(error_code=9_999), "error 9999"),
    ],
)
def test_a_leader_that_does_not_describe_the_quorum_is_quoted(raft, told, why):
    inquiry = VoterInquiry(raft, [each for each in IDS if each != raft.config.node_id])
    for ask in inquiry.poll(0):
        inquiry.answered(ask, answer(), "", 0)
    (describe,) = inquiry.poll(0)
    inquiry.answered(describe, told, "", 0)
    assert inquiry.account is None
    assert inquiry.account_failure == why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(zk_migration_ready=True), ""),
        (answer(), "it has no migration configured"),
        (answer((1, 8)), "its release, 3.4, does not say"),
        (answer(None), "it has no migration configured"),
        (answer(error_code=ErrorCode.INVALID_REQUEST), "has not answered yet: INVALID_REQUEST"),
        (None, "has not answered yet: it was not there"),
    ],
)
def test_why_a_voters_own_answer_delays_a_migration(raft, said, why):
    inquiry = VoterInquiry(raft, [each for each in IDS if each != raft.config.node_id])
    ask = inquiry.poll(0)[0]
    inquiry.answered(ask, said, "it was not there", 0)
    found = inquiry.voters[ask.node_id].not_migrating("3.9")
    assert why in found
    assert bool(why) == bool(found)
    assert inquiry.voters[ask.node_id].not_migrating("3.4") == ""


def test_a_voter_that_does_not_support_the_finalised_level_is_named():
    quorum = Quorum()
    leader = quorum.leader
    quorum.joined.wait(1_000)
    peers = quorum.node(leader).peers
    old = next(each for each in IDS if each != leader)
    peers.inquiry.voters[old].levels = (1, 14)
    row = voters(quorum, leader)[old]
    assert row["release"] == "3.6"
    assert row["why_not"] == "it supports metadata.version 1 to 14, and 21 is finalised"


def test_what_another_epochs_leader_told_is_not_shown():
    quorum = Quorum()
    leader = quorum.leader
    quorum.joined.wait(EVERY_MS)
    follower = next(each for each in IDS if each != leader)
    peers = quorum.node(follower).peers
    account = peers.inquiry.account
    assert shown(quorum, follower)["as_of"] is not None
    object.__setattr__(account, "epoch", account.epoch - 1)
    assert shown(quorum, follower)["as_of"] is None
    assert {one["lag"] for one in voters(quorum, follower).values()} == {None}


def test_clocks_of_the_leader_that_differ_from_ours_make_nobody_late():
    quorum = Quorum()
    leader = quorum.leader
    quorum.joined.wait(EVERY_MS)
    follower, third = (each for each in IDS if each != leader)
    peers = quorum.node(follower).peers
    account = peers.inquiry.account
    assert account is not None
    for skew_ms in (-600_000, 600_000):
        moved = {
            each: one._replace(
                last_fetch_ms=one.last_fetch_ms + skew_ms,
                last_caught_up_ms=one.last_caught_up_ms + skew_ms,
            )
            for each, one in account.voters.items()
        }
        peers.inquiry.account = replace(account, voters=moved)
        assert voters(quorum, follower)[third]["why_not"] == ""


def test_times_that_no_calendar_has_are_not_shown(raft):
    inquiry = VoterInquiry(raft, [each for each in IDS if each != raft.config.node_id])
    for ask in inquiry.poll(0):
        inquiry.answered(ask, answer(), "", 0)
    (describe,) = inquiry.poll(0)
    kind = m.DescribeQuorumResponse
    row = kind.ReplicaState(
        replica_id=3002, last_fetch_timestamp=2**62, last_caught_up_timestamp=-5
    )
    partition = kind.PartitionData(leader_epoch=4, current_voters=[row])
    told = kind(topics=[kind.TopicData(partitions=[partition])])
    inquiry.answered(describe, told, "", 0)
    assert inquiry.account.voters[3002].last_fetch_ms == -1


@pytest.mark.parametrize(("high_watermark", "again_ms"), [(-1, RETRY_MS), (0, EVERY_MS)])
def test_a_leader_that_knows_no_high_watermark_yet_is_asked_again_soon(
    raft, high_watermark, again_ms
):
    inquiry = VoterInquiry(raft, [each for each in IDS if each != raft.config.node_id])
    for ask in inquiry.poll(0):
        inquiry.answered(ask, answer(), "", 0)
    (describe,) = inquiry.poll(0)
    kind = m.DescribeQuorumResponse
    partition = kind.PartitionData(leader_epoch=4, high_watermark=high_watermark)
    inquiry.answered(describe, kind(topics=[kind.TopicData(partitions=[partition])]), "", 0)
    assert inquiry.account is not None
    assert inquiry.deadline_ms == again_ms
