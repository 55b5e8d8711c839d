"""A secured cluster of real 3.9.2 brokers: migrated, administered, and taken back."""

from __future__ import annotations

import pytest

from bench.judge.matrix_stores import differences
from tests.integration import secured
from tests.integration.secured import OLD_TOPICS, Secured
from tests.integration.zookeeper_frames import CREATE, DELETE, MULTI, SET_DATA, decode
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

TOPIC_DENIED, AIO_DENIED = "TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationFailedError"
RIGHTS = {
    "alice produces to orders": "",
    "alice reads orders": "",
    "alice produces to pay-in": TOPIC_DENIED,
    "bob produces to pay-in": "",
    "bob produces to closed": TOPIC_DENIED,
    "bob produces to orders": TOPIC_DENIED,
    "alice by aiokafka": "",
    "alice by aiokafka to closed": AIO_DENIED,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, module_brokers):
    """The whole of it; the servers have ended."""
    folder = tmp_path_factory.mktemp("secured")
    cluster = module_brokers(count=2, start=False, secured=True)
    with secured.wired(cluster, folder) as found:
        secured.tell(found)
        cluster.kill()
        yield found


def test_the_cluster_enforced_its_acls_before(run: Secured):
    assert run.seen["before"] == RIGHTS


# --- the copy


def test_everything_is_copied(run: Secured):
    tree, log = run.seen["copied"]
    assert differences(tree, log) == []
    before = run.seen["tree_before"].others
    assert log.others == before
    assert {key[0] for key in before} == {"quota", "scram", "acl", "token"}


def test_brokers_enforce_the_same_after_the_migration(run: Secured):
    assert run.seen["traffic"] == RIGHTS
    assert run.seen["old_token"] == [["closed", "orders"]] * 2, "of alice, made before"


# --- dual write, as brokers see it


@pytest.mark.requirement("G07")
def test_what_brokers_read_from_zookeeper_follows_what_is_changed_through_kraft(run: Secured):
    """Every wait ended: an ACL given and taken, log.cleaner.threads, a token made and gone."""
    assert run.seen["closed_before"] == TOPIC_DENIED
    assert run.seen["closed_after"] == TOPIC_DENIED
    assert "operation=WRITE" in run.seen["listed"]
    assert run.seen["configs"]["brokers/<default>"] == {"log.cleaner.threads": "2"}


CHANGED = {
    "acl_frames": (("/kafka-acl/Topic/",), "/kafka-acl-changes/"),
    "config_frames": (
        ("/config/topics/orders", "/config/topics/free", "/config/brokers/"),
        "/config/changes/",
    ),
    "token_frames": (("/delegation_token/tokens/",), "/delegation_token/token_changes/"),
}


@pytest.mark.requirement("G08")
@pytest.mark.parametrize("frames", CHANGED)
def test_the_notification_comes_after_the_data(run: Secured, frames: str):
    data, note = CHANGED[frames]
    writes = [
        op.path
        for _, frame in run.seen[frames]
        for code, ops in [decode(frame)]
        for op in ops
        if op.code in (CREATE, SET_DATA, DELETE) and code in (MULTI, op.code)
    ]
    changed = [at for at, path in enumerate(writes) if path.startswith(data)]
    told = [at for at, path in enumerate(writes) if path.startswith(note)]
    assert len(changed) >= 2
    assert len(told) == len(changed)
    assert all(after > before for before, after in zip(changed, told, strict=True))


# --- administration through brokers


@pytest.mark.requirement("I02")
def test_configs_go_to_the_controller_by_either_api(run: Secured):
    configs = run.seen["configs"]
    assert configs["topics/orders"] == {"retention.ms": "123456"}
    assert configs["topics/free"] == {"retention.ms": "654321"}
    assert [one.error_code for one in run.seen["legacy"].responses] == [0]
    keys = {inner_key(one) for one in run.controller_tap.of(m.EnvelopeRequest)}
    assert {33, 44} <= keys


def inner_key(envelope: m.EnvelopeRequest) -> int:
    return int.from_bytes(envelope.request_data[:2], "big")


@pytest.mark.requirement("I03")
def test_an_old_client_s_requests_are_passed_on_in_its_own_version(run: Secured):
    """Version 0 of CreateTopics and AlterConfigs is what clients of 0.11 speak."""
    assert [one.error_code for one in run.seen["old_client"].topics] == [0]
    versions = {
        (inner_key(one), int.from_bytes(one.request_data[2:4], "big"))
        for one in run.controller_tap.of(m.EnvelopeRequest)
    }
    assert {(19, 0), (33, 0)} <= versions


@pytest.mark.requirement("I04")
def test_acls_quotas_and_tokens_go_to_the_controller(run: Secured):
    keys = {inner_key(one) for one in run.controller_tap.of(m.EnvelopeRequest)}
    assert {30, 31, 38, 39, 40, 49, 51} <= keys
    tree, log = run.seen["stores"]
    assert differences(tree, log) == []
    assert tree.of("quota") == {("quota", "user=alice"): {"producer_byte_rate": secured.LIMIT}}
    assert {key[1:] for key in tree.of("scram")} == {
        ("alice", "SCRAM-SHA-256"),
        ("bob", "SCRAM-SHA-256"),
        ("dave", "SCRAM-SHA-512"),
    }
    assert {key[1] for key in tree.of("token")} == {run.bearer["id"]}


def test_librdkafka_s_admin_client_works_the_same(run: Secured):
    entries = run.seen["confluent_acls"][("acl", "topic", "literal", "closed")]
    assert any("User:alice" in map(str, entry) for entry in entries)


def test_a_token_makes_no_token(run: Secured):
    """The principal in the Envelope says how its bearer logged in."""
    printed = run.seen["token_from_token"]
    assert printed.code != 0
    assert "UnsupportedByAuthenticationException" in printed.err


def test_a_resource_zookeeper_cannot_name_is_refused(run: Secured):
    printed = run.seen["slash"].out + run.seen["slash"].err
    assert "cannot be the name of a znode" in printed


# --- who is refused, and where


@pytest.mark.requirement("K10")
def test_electing_leaders_needs_alter_on_the_cluster(run: Secured):
    denied, allowed = run.seen["election_denied"], run.seen["election_allowed"]
    assert "Not authorized to perform leader election" in denied.err
    assert run.seen["election_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert allowed.code == 0


@pytest.mark.requirement("I09")
def test_only_a_broker_may_forward(run: Secured):
    """Refused outside, whoever is named inside: a super user's name is no right by itself."""
    code, inner = run.seen["smuggled"]["127.0.0.2", "admin"]
    assert (code, inner) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert run.seen["smuggled"]["127.0.0.1", "admin"] == (0, 0)


@pytest.mark.requirement("I10", "I11", "I13")
def test_the_client_s_principal_is_judged_by_the_controller(run: Secured):
    """The broker has every right and passes it on; alice has none, then one."""
    assert run.seen["smuggled"]["127.0.0.1", "alice"] == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    denied = run.seen["create_denied"].out + run.seen["create_denied"].err
    assert "TopicAuthorizationException" in denied
    assert run.seen["create_allowed"].code == 0


# --- back in ZooKeeper mode, on the tree we wrote


@pytest.mark.requirement("B01")
def test_before_the_copy_going_back_leaves_the_cluster_its_controller(run: Secured):
    done, cleared = run.seen["back_before"], run.seen["cleared_before"]
    assert (done.code, done.found["phase"]["name"]) == (0, "waiting"), done
    assert done.found["did"] == ["stopped controller 3000", "marked /kraft_bridge"]
    assert done.found["without_controller_ms"] is None
    assert run.seen["controller_kept"]
    assert cleared.code == 0, cleared


@pytest.mark.requirement("B01", "G09")
def test_with_a_broker_in_kraft_mode_it_is_refused_and_says_which_one_to_restart(run: Secured):
    refused = run.seen["rollback_refused"]
    assert (refused.code, refused.found["refused"], refused.found["did"]) == (1, True, [])
    assert refused.named("RB-R04") == ["/brokers/ids/1"]
    assert "restart each broker that is in KRaft mode (1)" in refused.found["steps"][0]["what"]


@pytest.mark.requirement("B01", "B04", "G03", "G09")
def test_it_goes_back_by_one_command_while_the_brokers_run(run: Secured):
    """They are still in migration mode: one is elected as soon as /controller is free."""
    planned, done = run.seen["rollback_planned"], run.seen["rollback"]
    assert (planned.code, planned.found["did"], planned.found["acted"]) == (0, [], False)
    assert (done.code, done.found["failed"]) == (0, ""), done
    assert done.found["phase"]["name"] == "dual write"
    assert done.found["did"] == [
        "stopped controller 3000",
        "deleted /controller, marked /kraft_bridge",
    ]
    assert done.found["controller"] in secured.BROKERS
    before, after = run.seen["epochs"]
    assert after == before + 1, "kept, and raised by the election"
    whole = done.found["without_controller_ms"]
    assert whole == pytest.approx(done.found["ours_ms"] + done.found["brokers_ms"], abs=0.2)
    assert 0 < whole < 10_000, "on a machine of its own below 1 s"
    left = [one for one in done.found["steps"] if not one["done"]]
    assert "restart every broker without" in left[0]["what"]


@pytest.mark.requirement("A05")
def test_kafkas_tool_creates_a_topic_under_the_elected_broker_at_once(run: Secured):
    assert run.seen["since"].code == 0, run.seen["since"]


@pytest.mark.requirement("B07")
def test_the_old_controller_started_again_is_refused_and_changes_nothing(run: Secured):
    (waiting,) = run.seen["old_controller"]["migration"]["waiting"]
    assert waiting["why"] == "zookeeper_mode_took_over"
    assert "kraft-bridge rollback --clear" in waiting["text"]
    assert run.seen["tree_after_the_old"] == run.seen["tree_back"]


@pytest.mark.requirement("B06")
def test_a_second_attempt_copies_everything_again(run: Secured):
    assert run.seen["cleared"].found["did"] == ["deleted /migration and /kraft_bridge"]
    tree, log = run.seen["second"]
    assert differences(tree, log) == []
    assert {"since", "orders", "pay-alice"} <= log.plain.topics.keys()
    assert log.of("acl")


@pytest.mark.requirement("W08", "W10")
def test_a_zookeeper_mode_cluster_serves_on_the_tree_we_wrote(run: Secured):
    assert run.seen["exit_code"] == 0
    assert run.seen["controller_after"]["kraftControllerEpoch"] == -1
    served = run.seen["served_after"]
    made = {"by-an-old-client", "pay-alice", "pay-smuggled-by-admin"}
    assert set(served) == {*OLD_TOPICS, *made, "since"} - {"gone"}
    assert set(served.values()) == {("", "")}


def entries(listed: str) -> set[tuple[str, str]]:
    """(resource, entry) of what kafka-acls printed."""
    found, resource = set(), ""
    for line in listed.splitlines():
        if line.startswith(("\t", " \t")):
            found.add((resource, line.strip()))
        elif line.strip():
            resource = line.strip()
    return found


@pytest.mark.requirement("W10", "W11")
def test_it_enforces_every_acl_and_quota_and_knows_every_user(run: Secured):
    seen = run.seen
    assert entries(seen["acls_after"]) == entries(seen["acls_before"])
    assert len(entries(seen["acls_before"])) > 12
    assert seen["traffic_after"] == RIGHTS
    assert seen["throttled_after_ms"] > 0
    assert seen["throttled_ms"] > 0
    assert "consumer_byte_rate" not in seen["quotas_after"]
    mine = ["closed", "pay-alice", "pay-in", "pay-smuggled-by-admin"]
    assert seen["token_after"] == [mine] * 2, "of bob, made in dual write"
    assert seen["logins_after"] == {"alice": True, "bob": True}
    assert seen["removed_login_after"] != 0, "a password that was deleted"
    assert seen["dave_after"] == 0
