"""A cluster with ACLs, quotas, SCRAM users and delegation tokens, migrated and taken back, once.

Brokers enforce ACLs by AclAuthorizer and have a SASL listener; our controller enforces them too.
Administration goes through Kafka's own tools, traffic through librdkafka and aiokafka. Nothing
here asserts.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from bench.judge import matrix_stores as judge
from bench.judge.stores import dump_log
from bench.load import cluster_api as api
from bench.matrix.login import call_as
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import TOKEN_SECRET, authorizer
from emulator.servers.ports import HOST
from emulator.servers.seeded import connected
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from tests.integration.sasl_users import ACLS, CONFIGS, ELECTIONS, TOKENS, TOPICS, Users, confluent
from tests.integration.taken_back import rollback
from tests.integration.taps import Tap
from tests.kit.requests import create_topics
from wire import messages as m
from wire.codec import encode
from wire.frame import RequestHeader, decode_response, encode_request

OLD_TOPICS = ("orders", "pay-in", "closed", "free", "gone")
BROKERS = (0, 1)
SEEN_S: Final = 20.0
LIMIT = 2_000
"""Bytes per second that alice may produce in the end."""


@dataclass(kw_only=True)
class Secured(Users):
    """The run, as tests look at it."""

    bridge: Bridge
    look: KazooClient
    controller_tap: Tap
    zk_tap: Tap
    seen: dict[str, Any] = field(default_factory=dict)
    """What was looked at on the way, by name."""

    def stores(self) -> tuple[judge.Stores, judge.Stores]:
        """ZooKeeper and the log, as plain entities."""
        self.bridge.wait_drained()
        tree = judge.read_tree(contents(dump(self.cluster.zk, with_secrets=True)))
        return tree, judge.read_log(dump_log(self.bridge.data))

    def tree(self) -> judge.Stores:
        return judge.read_tree(contents(dump(self.cluster.zk, with_secrets=True)))

    def ask(self, request: Any, broker: int = 0, version: int | None = None) -> Any:
        """Send a request to a broker, unnamed."""
        return asyncio.run(api.call(self.cluster.brokers[broker].bootstrap, request, version))


@contextmanager
def wired(cluster: KafkaCluster, folder: Path) -> Iterator[Secured]:
    """Proxies before our controller and before its ZooKeeper; nothing started yet."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        zk_port = int(cluster.zk.rpartition(":")[2])
        zk_tap = Tap(stack.enter_context(FaultProxy(zk_port, FrameProtocol.ZOOKEEPER))).keep()
        rights = authorizer(kraft=True) | {
            "super.users": "User:admin",
            # Before the copy there are no ACLs; after it they alone let brokers in.
            "allow.everyone.if.no.acl.found": "true",
            "delegation.token.secret.key": TOKEN_SECRET,
            "zookeeper.session.timeout.ms": 6000,
        }
        bridge = Bridge(folder, zk_tap.proxy.hosts, properties=rights)
        stack.callback(bridge.kill)
        tap = Tap(stack.enter_context(FaultProxy(bridge.port, FrameProtocol.KAFKA)))
        look = stack.enter_context(connected(cluster.zk))
        host = stack.enter_context(ToolHost(cluster.brokers[0].release))
        controller_tap = tap.keep(lambda frame: struct.unpack_from(">h", frame)[0] == 58)
        yield Secured(
            cluster=cluster,
            host=host,
            folder=folder,
            bridge=bridge,
            look=look,
            controller_tap=controller_tap,
            zk_tap=zk_tap,
        )


def tell(run: Secured) -> None:
    """From a secured ZooKeeper-mode cluster to dual write, through changes, and back."""
    _old_cluster(run)
    _back_before_the_copy(run)
    _migrate(run)
    _copied(run)
    _acls(run)
    _configs(run)
    _tokens(run)
    _scram_and_quotas(run)
    _who_may(run)
    run.seen["stores"] = run.stores()
    run.seen["acls_before"] = run.done(ACLS, "--list")
    _back(run)


def _old_cluster(run: Secured) -> None:
    cluster = run.cluster.start().wait_ready()
    shape = asyncio.run(api.shape(cluster.brokers[0].bootstrap))
    controller = shape.brokers[shape.controller_id]
    topics = [api.topic(name, 1, 2, {"max.message.bytes": "5000000"}) for name in OLD_TOPICS]
    asyncio.run(api.create_topics(controller, topics))
    for user, mechanism in (("alice", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512")):
        scram(run, user, mechanism, f"{user}-1")
    alice = ("--entity-type", "users", "--entity-name", "alice")
    run.done(CONFIGS, "--alter", *alice, "--add-config", "producer_byte_rate=10000000")
    run.done(
        CONFIGS,
        *("--alter", "--entity-type", "clients", "--entity-default"),
        *("--add-config", "consumer_byte_rate=20000000"),
    )
    allow = ("--add", "--allow-principal")
    run.done(ACLS, *allow, "User:alice", "--producer", "--topic", "orders")
    run.done(ACLS, *allow, "User:alice", "--consumer", "--topic", "orders", "--group", "readers")
    pay = ("--resource-pattern-type", "prefixed", "--topic", "pay-")
    run.done(ACLS, *allow, "User:bob", "--operation", "All", *pay)
    run.done(ACLS, *allow, "User:bob", "--operation", "All", "--topic", "closed")
    deny = ("--add", "--deny-principal", "User:bob", "--operation", "Write", "--topic", "closed")
    run.done(ACLS, *deny)
    us = (*allow, "User:ANONYMOUS", "--allow-host", HOST, "--cluster")
    run.done(ACLS, *us, "--operation", "ClusterAction", "--operation", "Alter")
    run.done(ACLS, *us, "--operation", "AlterConfigs", "--operation", "Describe")
    run.bearer = token(run, "alice")
    run.seen["before"] = traffic(run)
    run.seen["tree_before"] = run.tree()


def scram(run: Secured, user: str, mechanism: str, password: str) -> None:
    """Set a SCRAM password by kafka-configs."""
    run.done(
        CONFIGS,
        *("--alter", "--entity-type", "users", "--entity-name", user),
        *("--add-config", f"{mechanism}=[iterations=4096,password={password}]"),
    )
    run.passwords[user] = (mechanism, password)


def token(run: Secured, user: str, broker: int = 0) -> dict[str, str]:
    """Make a delegation token by kafka-delegation-tokens."""
    arguments = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    printed = run.done(TOKENS, *arguments, broker=broker, user=user)
    [(id_, hmac)] = re.findall(r"^(\S+)\s+(\S+==)\s+User:", printed, re.MULTILINE)
    return {"id": id_, "hmac": hmac}


def traffic(run: Secured) -> dict[str, str]:
    """What each user may and may not do, tried: ``""`` for what works."""
    return {
        "alice produces to orders": run.produce("alice", "orders"),
        "alice reads orders": run.consume("alice", "orders"),
        "alice produces to pay-in": run.produce("alice", "pay-in"),
        "bob produces to pay-in": run.produce("bob", "pay-in"),
        "bob produces to closed": run.produce("bob", "closed"),
        "bob produces to orders": run.produce("bob", "orders"),
        "alice by aiokafka": run.produce_aio("alice", "orders"),
        "alice by aiokafka to closed": run.produce_aio("alice", "closed"),
    }


def _back_before_the_copy(run: Secured) -> None:
    """A controller has waited for brokers, which have not been restarted; then from the start."""
    bridge, seen = run.bridge, run.seen
    before = run.look.get("/controller")
    bridge.format(json.loads(run.look.get("/cluster/id")[0])["id"]).start().wait_started()
    bridge.wait_status("a wait", lambda status: bool(status["migration"]["waiting"]))
    where = ("--zookeeper", run.cluster.zk, "-c", bridge.config, "--yes")
    seen["back_before"] = rollback(*where)
    seen["controller_kept"] = run.look.get("/controller") == before
    bridge.wait()
    seen["cleared_before"] = rollback(*where, "--clear")
    shutil.rmtree(bridge.data)


def _migrate(run: Secured) -> None:
    cluster, bridge = run.cluster, run.bridge
    bridge.format(json.loads(run.look.get("/cluster/id")[0])["id"]).start().wait_started()
    cluster.migrate(run.controller_tap.proxy.port, rolling=False)
    run.seen["dual_write"] = bridge.wait_dual_write()
    cluster.wait_ready()
    _whole(run)


def _whole(run: Secured) -> None:
    one = run.cluster.brokers[0].bootstrap
    wait_for("replicas in sync", lambda: not asyncio.run(api.shape(one)).short())


def _copied(run: Secured) -> None:
    run.seen["copied"] = run.stores()
    run.seen["traffic"] = traffic(run)


def _acls(run: Secured) -> None:
    """An ACL made and taken away through a broker; what brokers make of it."""
    seen = run.seen
    first = len(run.zk_tap.kept)
    seen["closed_before"] = run.produce("alice", "closed")
    rights = ("--allow-principal", "User:alice", "--operation", "Write", "--topic", "closed")
    run.done(ACLS, "--add", *rights, broker=1)
    wait_for(
        "alice may", lambda: all(not run.produce("alice", "closed", broker=b) for b in BROKERS)
    )
    seen["listed"] = run.done(ACLS, "--list", "--topic", "closed")
    run.done(ACLS, "--remove", "--force", *rights, broker=1)
    wait_for(
        "alice may no more", lambda: all(run.produce("alice", "closed", broker=b) for b in BROKERS)
    )
    seen["closed_after"] = run.produce("alice", "closed")
    binding = confluent.AclBinding(
        confluent.ResourceType.TOPIC,
        "closed",
        confluent.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        confluent.AclOperation.READ,
        confluent.AclPermissionType.ALLOW,
    )
    client = run.admin("admin")
    for future in client.create_acls([binding]).values():
        future.result()
    seen["confluent_acls"] = run.tree().of("acl")
    printed = run.tool(ACLS, "--add", "--allow-principal", "User:a", "--operation", "Read",
                       "--topic", "a/b")  # fmt: skip
    seen["slash"] = printed
    seen["acl_frames"] = run.zk_tap.kept[first:]


def _configs(run: Secured) -> None:
    """Configs of a topic and of brokers through a broker: incremental, and as old clients do."""
    seen = run.seen
    first = len(run.zk_tap.kept)
    topic = ("--entity-type", "topics", "--entity-name", "orders")
    run.done(CONFIGS, "--alter", *topic, "--add-config", "retention.ms=123456", broker=1)
    run.done(CONFIGS, "--alter", *topic, "--delete-config", "max.message.bytes", broker=1)
    run.done(TOPICS, "--delete", "--topic", "gone", broker=1)
    brokers = ("--entity-type", "brokers", "--entity-default")
    run.done(CONFIGS, "--alter", *brokers, "--add-config", "log.cleaner.threads=2", broker=1)
    kinds = m.AlterConfigsRequest
    config = kinds.AlterableConfig(name="retention.ms", value="654321")
    resource = kinds.AlterConfigsResource(resource_type=2, resource_name="free", configs=[config])
    seen["legacy"] = run.ask(kinds(resources=[resource]), broker=1, version=0)
    old = create_topics("by-an-old-client", factor=2, timeout_ms=20_000)
    seen["old_client"] = run.ask(old, broker=1, version=0)

    def described(broker: int) -> dict[str, str]:
        all_ = run.done(CONFIGS, "--describe", "--all", "--entity-type", "brokers",
                        "--entity-name", str(broker), broker=broker)  # fmt: skip
        topic_ = run.done(CONFIGS, "--describe", *topic, broker=broker)
        return {
            "log.cleaner.threads": re.findall(r"log\.cleaner\.threads=(\S+)", all_)[0],
            "retention.ms": re.findall(r"retention\.ms=(\S+)", topic_)[0],
        }

    wanted_ = {"log.cleaner.threads": "2", "retention.ms": "123456"}
    wait_for("configs", lambda: all(described(b) == wanted_ for b in BROKERS), SEEN_S)
    seen["configs"] = run.tree().plain.configs
    seen["config_frames"] = run.zk_tap.kept[first:]


def _tokens(run: Secured) -> None:
    """Old and new tokens log in on each broker; renewed and expired through a broker."""
    seen = run.seen
    first = len(run.zk_tap.kept)
    seen["old_token"] = [listed(run, broker) for broker in BROKERS]
    seen["token_from_token"] = run.tool(
        TOKENS, "--create", "--max-life-time-period", "-1", user="token"
    )
    made = token(run, "bob", broker=1)
    old, run.bearer = run.bearer, made
    wait_for("bob's token", lambda: all("pay-in" in listed(run, b) for b in BROKERS), SEEN_S)
    renew = ("--renew", "--renew-time-period", "7200000", "--hmac")
    seen["renewed"] = run.done(TOKENS, *renew, old["hmac"], broker=1, user="bob")
    seen["not_renewed"] = run.tool(TOKENS, *renew, made["hmac"], broker=1, user="alice")
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac")
    run.done(TOKENS, *expire, old["hmac"], broker=1, user="alice")
    run.bearer = old
    wait_for("end of alice's token", lambda: all(not listed(run, b) for b in BROKERS), SEEN_S)
    run.bearer = made
    seen["token_frames"] = run.zk_tap.kept[first:]


def listed(run: Secured, broker: int, user: str = "token") -> list[str]:
    """Topics that a user is told of; none if the login fails."""
    printed = run.tool(TOPICS, "--list", broker=broker, user=user)
    return [] if printed.code else printed.out.split()


def _scram_and_quotas(run: Secured) -> None:
    scram(run, "alice", "SCRAM-SHA-256", "alice-2")
    scram(run, "dave", "SCRAM-SHA-512", "dave-1")
    gone = ("--entity-type", "users", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-512")
    scram(run, "bob", "SCRAM-SHA-256", "bob-2")
    run.done(CONFIGS, "--alter", *gone, broker=1)
    alice = ("--entity-type", "users", "--entity-name", "alice")
    run.done(CONFIGS, "--alter", *alice, "--add-config", f"producer_byte_rate={LIMIT}", broker=1)
    default = ("--entity-type", "clients", "--entity-default")
    run.done(CONFIGS, "--alter", *default, "--delete-config", "consumer_byte_rate", broker=1)
    wait_for("alice's new password", lambda: not run.produce("alice", "orders"), SEEN_S)
    run.seen["throttled_ms"] = wait_for("throttle", lambda: run.throttled_ms("alice", "orders"))


def _who_may(run: Secured) -> None:
    """Who is refused, by whom, and where the refusal stands."""
    seen = run.seen
    election = ("--election-type", "preferred", "--topic", "orders", "--partition", "0")
    seen["election_denied"] = run.tool(ELECTIONS, *election, user="alice", broker=1)
    request = m.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
    (answer,) = call_as(run.sasl(1), *run.login_of("alice"), request)
    seen["election_code"] = answer.error_code
    seen["election_allowed"] = run.tool(ELECTIONS, *election, user="admin", broker=1)
    create = ("--create", "--topic", "pay-alice", "--partitions", "1", "--replication-factor", "2")
    seen["create_denied"] = run.tool(TOPICS, *create, user="alice", broker=1)
    run.done(
        ACLS,
        *("--add", "--allow-principal", "User:alice", "--operation", "Create"),
        *("--operation", "Describe", "--topic", "pay-alice"),
    )
    seen["create_allowed"] = run.tool(TOPICS, *create, user="alice", broker=1)
    seen["smuggled"] = {
        (sender, who): enveloped(run, sender, who)
        for sender, who in ((HOST, "alice"), ("127.0.0.2", "admin"), (HOST, "admin"))
    }
    seen["smuggled_topics"] = run.done(TOPICS, "--list").split()


def enveloped(run: Secured, sender: str, who: str) -> tuple[int, int | None]:
    """CreateTopics in an Envelope straight to our controller: errors outside and inside.

    The sender's address stands for its name, as everyone is ANONYMOUS on a PLAINTEXT listener.
    """
    inner = encode_request(
        RequestHeader(api_key=19, api_version=7, correlation_id=5, client_id="x"),
        create_topics(f"pay-smuggled-by-{who}", timeout_ms=10_000),
    )
    principal = m.DefaultPrincipalData(type="User", name=who)
    request = m.EnvelopeRequest(
        request_data=inner,
        request_principal=b"\0\0" + encode(principal, 0),
        client_host_address=bytes([10, 1, 2, 3]),
    )
    header = RequestHeader(api_key=58, api_version=0, correlation_id=6, client_id="x")
    frame = encode_request(header, request)
    with socket.create_connection((HOST, run.bridge.port), 20, (sender, 0)) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        _, answer = decode_response(58, 0, stream.read(size))
    if answer.response_data is None:
        return answer.error_code, None
    _, response = decode_response(19, 7, answer.response_data)
    return answer.error_code, response.topics[0].error_code


def _back(run: Secured) -> None:
    """Back to ZooKeeper mode, on the tree our controller wrote, by ``kraft-bridge rollback``."""
    cluster, seen = run.cluster, run.seen
    files = [broker.folder / f"{broker.name}.properties" for broker in cluster.brokers]
    where = ("--zookeeper", cluster.zk, "-c", run.bridge.config, *files)
    _refused_with_a_broker_in_kraft_mode(run, where)
    seen["rollback_planned"] = rollback(*where)
    before = int(run.look.get("/controller_epoch")[0])
    seen["rollback"] = rollback(*where, "--yes")
    seen["exit_code"] = run.bridge.wait()
    seen["epochs"] = before, int(run.look.get("/controller_epoch")[0])
    wanted = ("--topic", "since", "--partitions", "1", "--replication-factor", "2")
    seen["since"] = run.tool(TOPICS, "--create", *wanted)
    cluster.stop()
    for broker in cluster.brokers:
        broker.migration, broker.controller_port = False, None
    cluster.start().wait_ready()
    _whole(run)
    _the_old_controller_starts(run)
    seen["controller_after"] = json.loads(run.look.get("/controller")[0])
    seen["acls_after"] = run.done(ACLS, "--list")
    seen["traffic_after"] = traffic(run)
    seen["throttled_after_ms"] = wait_for("throttle", lambda: run.throttled_ms("alice", "orders"))
    seen["quotas_after"] = run.done(CONFIGS, "--describe", "--entity-type", "users")
    seen["token_after"] = [listed(run, broker) for broker in BROKERS]
    names = asyncio.run(api.shape(cluster.brokers[0].bootstrap)).topics
    seen["served_after"] = {name: served(run, name) for name in names if not name.startswith("__")}
    seen["logins_after"] = {user: bool(listed(run, 0, user)) for user in ("alice", "bob")}
    run.passwords["bob"] = ("SCRAM-SHA-512", "bob-1")
    seen["removed_login_after"] = run.tool(TOPICS, "--list", user="bob").code
    seen["dave_after"] = run.tool(TOPICS, "--list", user="dave").code
    _again(run, run.folder / "second")


def _refused_with_a_broker_in_kraft_mode(run: Secured, where: Sequence[object]) -> None:
    """One broker is in KRaft mode; then, as the command says, in ZooKeeper mode again."""
    broker = run.cluster.brokers[-1]

    def restart(kind: str, **more: Any) -> None:
        broker.stop()
        for key, value in more.items():
            setattr(broker, key, value)
        broker.start().wait_started()
        run.bridge.wait_status(
            f"broker {broker.id} in {kind} mode",
            lambda status: (
                (broker.id, kind, False)
                in [(one["id"], one["kind"], one["fenced"]) for one in status["brokers"]]
            ),
        )
        _whole(run)

    restart("kraft", zk=None, migration=False)
    run.seen["rollback_refused"] = rollback(*where, "--yes")
    restart("zookeeper", zk=run.cluster.zk, migration=True)


def _the_old_controller_starts(run: Secured) -> None:
    """A supervisor starts it again: what it says, and what becomes of the tree."""
    run.seen["tree_back"] = _lasting(run)
    run.bridge.start()
    run.seen["old_controller"] = run.bridge.wait_status(
        "a refusal", lambda status: status["migration"]["phase"] == "refused"
    )
    run.bridge.stop()
    run.seen["tree_after_the_old"] = _lasting(run)


def _lasting(run: Secured) -> tuple[object, ...]:
    """What the brokers themselves do not change meanwhile, as they do ISRs."""
    tree = run.tree()
    return set(tree.plain.topics), tree.plain.configs, tree.others


def _again(run: Secured, folder: Path) -> None:
    """A second attempt, after the steps that the command prints."""
    cluster, seen = run.cluster, run.seen
    where = ("--zookeeper", cluster.zk, "-c", run.bridge.config)
    seen["cleared"] = rollback(*where, "--clear", "--yes")
    second = Bridge(folder, cluster.zk, port=run.bridge.port, properties=run.bridge.extra)
    try:
        second.format(json.loads(run.look.get("/cluster/id")[0])["id"]).start().wait_started()
        cluster.migrate(run.controller_tap.proxy.port, rolling=False)
        second.wait_dual_write()
        cluster.wait_ready()
        _whole(run)
        second.wait_drained()
        tree = judge.read_tree(contents(dump(cluster.zk, with_secrets=True)))
        seen["second"] = tree, judge.read_log(dump_log(second.data))
    finally:
        second.kill()


def served(run: Secured, topic: str) -> tuple[str, str]:
    """A record written and read."""
    return run.produce("admin", topic), run.consume("admin", topic)
