"""Our controller on a real ZooKeeper with SASL, TLS, ACLs: what works, and what it says if not."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.kafka import KafkaBroker
from emulator.servers.waiting import wait_for
from tests.integration.node_stage import new_topic
from tests.integration.secured_stage import (
    NOBODY,
    WORLD_READ,
    Ensemble,
    SecuredStage,
    owned,
    shown,
)
from tests.kit.requests import alter_config, quota
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

BROKER = 4


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path_factory.mktemp("ensemble"))
    try:
        yield made
    finally:
        made.server.kill()


@pytest.fixture(scope="module")
def module_stage(
    ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredStage]:
    with FaultProxy(ensemble.server.port) as proxy:
        made = SecuredStage(tmp_path_factory.mktemp("secured"), ensemble, proxy)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def stage(module_stage: SecuredStage) -> SecuredStage:
    """In dual write by SASL, nothing behind."""
    module_stage.again()
    return module_stage


def broker_config(broker: str, value: str) -> m.IncrementalAlterConfigsRequest:
    return alter_config(BROKER, "log.cleaner.threads", value, broker)


def user_quota(user: str) -> m.AlterClientQuotasRequest:
    return quota(1024.0, user)


# ---------------------------------------------------------------- ACLs
@pytest.mark.requirement("C10")
def test_what_we_create_has_kafkas_acl_by_the_class_of_its_path(stage: SecuredStage) -> None:
    topic = stage.name()
    stage.create(topic)
    config, quota = stage.ask(broker_config("1", "3"), user_quota("alice"))
    assert [one.error_code for one in config.message.responses] == [0]
    assert [one.error_code for one in quota.message.entries] == [0]
    stage.settle()
    change = max(stage.client.get_children("/config/changes"))
    ours = owned("kafka")
    wanted = {
        "/kraft_bridge": ours | WORLD_READ,
        "/migration": ours | WORLD_READ,
        "/controller": ours | WORLD_READ,
        f"/brokers/topics/{topic}": ours | WORLD_READ,
        f"/brokers/topics/{topic}/partitions/0/state": ours | WORLD_READ,
        f"/config/changes/{change}": ours | WORLD_READ,
        "/config/brokers/1": ours,
        "/config/users/alice": ours,
    }
    found = {path: shown(stage.client.get_acls(path)[0]) for path in wanted}
    assert found == wanted
    with stage.ensemble.client("guest") as guest:
        assert guest.get(f"/brokers/topics/{topic}")[0]
        for secret in ("/config/users/alice", "/config/brokers/1"):
            with pytest.raises(NoAuthError):
                guest.get(secret)


@pytest.mark.requirement("C10")
def test_acls_that_are_there_stay(stage: SecuredStage) -> None:
    """A setData changes no ACL: not that of a broker's znode, not one an operator has set."""
    with stage.ensemble.root() as root:
        assert shown(root.get_acls("/config/brokers/0")[0]) == owned("kafka") | WORLD_READ
        before = root.get_acls("/config/brokers/0")[1].aversion
        (answered,) = stage.ask(broker_config("0", "4"))
        assert answered.message.responses[0].error_code == 0
        stage.settle()
        assert b'"4"' in root.get("/config/brokers/0")[0]
        acls, stat = root.get_acls("/config/brokers/0")
        assert (shown(acls), stat.aversion) == (owned("kafka") | WORLD_READ, before)


@pytest.mark.parametrize("path", ["/brokers/topics", "/migration"])
def test_a_znode_we_may_not_write_is_named_and_waited_for(stage: SecuredStage, path: str) -> None:
    topic = stage.name()
    with stage.ensemble.root() as root:
        before, _ = root.get_acls(path)
        root.set_acls(path, NOBODY)
        try:
            with stage.written_once() as names:
                stage.create(topic)  # the log takes it: nobody waits for ZooKeeper yet
                names.append(topic)
                why = stage.why("NO_AUTH")
                assert path in why
                assert any("refuses a znode" in line and "NO_AUTH" in line for line in log(stage))
                root.set_acls(path, before)
        finally:
            root.set_acls(path, before)
    assert stage.settle()["migration"]["poisoned"] == []
    assert stage.disagreements() == []


def log(stage: SecuredStage) -> list[str]:
    return list(stage.bridge.lines())


def _sessions(stage: SecuredStage) -> int:
    """How many sessions it has had."""
    status = stage.bridge.wait_status("an answer", bool)
    return int(status["migration"]["zookeeper"]["sessions"])


# ---------------------------------------------------------------- logging in
def test_a_session_that_breaks_is_fenced_by_who_logs_in_again(stage: SecuredStage) -> None:
    sessions = _sessions(stage)
    with stage.written_once() as names:
        for _ in range(3):
            names.append(stage.name())
            stage.create(names[-1])
            stage.proxy.cut()
        stage.settle()
    assert _sessions(stage) > sessions
    assert stage.disagreements() == []


def test_wrong_credentials_are_named_and_lose_nothing(stage: SecuredStage) -> None:
    stage.restart({"zookeeper.set.acl": "true", **stage.ensemble.sasl("guest", "wrong")})
    why = stage.why("refuses the user guest")
    assert why.startswith("no session with ZooKeeper")
    assert "SASL DIGEST-MD5" in why
    assert any("refuses the user guest" in line for line in log(stage))
    assert not any("wrong" in line for line in log(stage)), "no password in the log"
    stage.restart({})
    assert "another kind of login" in stage.why("no session with ZooKeeper")
    with stage.written_once() as names:
        names.append(stage.name())
        sent_away(stage, names[-1])
        stage.restart(stage.usual)
        stage.bridge.wait_dual_write()
        stage.create(names[-1])


def sent_away(stage: SecuredStage, name: str) -> None:
    """Nothing is taken while ZooKeeper is out of reach and may know another log."""
    (answered,) = stage.ask(new_topic(name))
    assert answered.error == ErrorCode.NOT_CONTROLLER


def test_an_identity_that_owns_nothing_is_told_which_znode(stage: SecuredStage) -> None:
    claimed = stage.client.get("/controller_epoch")
    stage.restart({"zookeeper.set.acl": "true", **stage.ensemble.sasl("guest")})
    path, answered, _ = stage.why("NO_AUTH").partition(": ZooKeeper answers NO_AUTH")
    assert answered
    assert stage.client.exists(path)
    assert stage.client.get("/controller_epoch") == claimed


@pytest.mark.requirement("C10")
def test_digest_is_one_more_identity(stage: SecuredStage) -> None:
    """As the super user of addauth: no ACL stops it, and who it also is owns what it makes."""
    stage.restart({"kraftbridge.zookeeper.digest": "super:super"})
    stage.bridge.wait_dual_write()
    name = stage.name()
    stage.create(name)
    stage.settle()
    acls = shown(stage.client.get_acls(f"/brokers/topics/{name}")[0])
    assert acls == {(31, "world", "anyone")}, "without zookeeper.set.acl everything is open"


# ---------------------------------------------------------------- TLS
@pytest.mark.requirement("C11")
def test_tls_and_a_certificate_are_enough(stage: SecuredStage) -> None:
    """mTLS: the certificate is the identity, that of an ACL too; the stores are PKCS12."""
    ensemble = stage.ensemble
    client = ensemble.authority.issue("controller")
    stores = {
        "keystore_location": ensemble.authority.as_pkcs12(client),
        "keystore_password": "changeit",
        "truststore_location": ensemble.authority.p12,
        "truststore_type": "PKCS12",
        "truststore_password": "changeit",
        "enabled_protocols": "TLSv1.2,TLSv1.3",
    }
    both = {"zookeeper.set.acl": "true", **ensemble.tls(**stores), **ensemble.sasl()}
    stage.restart(both, ensemble.tls_hosts)
    stage.bridge.wait_dual_write()
    name = stage.name()
    stage.create(name)
    stage.settle()
    acls = shown(stage.client.get_acls(f"/brokers/topics/{name}")[0])
    assert owned("kafka") | WORLD_READ < acls
    (certified,) = acls - owned("kafka") - WORLD_READ
    assert (certified[0], certified[1]) == (31, "x509")
    assert "CN=controller" in certified[2]
    assert stage.disagreements() == []
    diff = command(
        "zk", "diff", "-c", str(stage.bridge.config), "--log-dir", str(stage.bridge.data)
    )
    assert (diff.returncode, diff.stdout.splitlines()[1:]) == (0, []), diff.stderr
    dumped = command("zk", "dump", "-c", str(stage.bridge.config))
    assert json.loads(dumped.stdout)["nodes"][f"/brokers/topics/{name}"]["acl"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    main = "from emulator.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", main, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.requirement("C11")
def test_a_certificate_that_has_expired_is_named_and_a_renewed_one_taken(
    stage: SecuredStage,
) -> None:
    ensemble = stage.ensemble
    path = ensemble.authority.issue("renewed", expired=True)
    stage.restart(
        {"zookeeper.set.acl": "true", **ensemble.tls(keystore_location=path), **ensemble.sasl()},
        ensemble.tls_hosts,
    )
    why = stage.why("the certificate expired at")
    assert f"zookeeper.ssl.keystore.location={path}" in why
    with stage.written_once() as names:
        names.append(stage.name())
        sent_away(stage, names[-1])
        assert ensemble.authority.issue("renewed") == path
        stage.bridge.wait_dual_write()
        stage.create(names[-1])


def failures(ensemble: Ensemble) -> dict[str, tuple[dict[str, object], str, str]]:
    """Name -> properties, address of ZooKeeper, what /status must say."""
    plain, tls = ensemble.server.hosts, ensemble.tls_hosts
    by_address = f"127.0.0.1:{ensemble.server.tls_port}"
    foreign = ensemble.stranger.issue("foreign")
    sasl = ensemble.sasl()
    return {
        "TLS at a plain port": (ensemble.tls() | sasl, plain, "it wants plain text at this port"),
        "plain at a TLS port": (sasl, tls, "it expects TLS at this port"),
        "a server nobody vouches for": (
            ensemble.tls(truststore_location=ensemble.stranger.pem) | sasl,
            tls,
            "the server's certificate is refused: unable to get local issuer certificate",
        ),
        "a certificate for another host": (
            ensemble.tls() | sasl,
            by_address,
            "IP address mismatch, certificate is not valid for '127.0.0.1'",
        ),
        "a certificate of ours nobody vouches for": (
            ensemble.tls(keystore_location=foreign) | sasl,
            tls,
            "the server refuses our certificate",
        ),
        "a version the server does not speak": (
            ensemble.tls(protocol="TLSv1.1") | sasl,
            tls,
            "TLS",
        ),
    }


@pytest.mark.requirement("C11")
def test_what_is_wrong_with_tls_is_said(
    ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One controller each, all at once; none of them gets as far as ZooKeeper."""
    bridges: dict[str, tuple[Bridge, str]] = {}
    try:
        for name, (properties, hosts, text) in failures(ensemble).items():
            bridge = Bridge(tmp_path_factory.mktemp("tls"), hosts, properties=properties)
            bridge.format("bm9kZS1vbi16b29rZWVwZQ").start()
            bridges[name] = (bridge, text)
        said = {name: reason(bridge, text) for name, (bridge, text) in bridges.items()}
    finally:
        for bridge, _ in bridges.values():
            bridge.kill()
    assert {name for name, why in said.items() if "no session with ZooKeeper" in why} == set(said)


def reason(bridge: Bridge, text: str) -> str:
    def named(status: dict[str, Any]) -> bool:
        return any(text in one["text"] for one in status["migration"]["waiting"])

    waiting = bridge.wait_status(f"{text!r} in /status", named)["migration"]["waiting"]
    return " ".join(one["text"] for one in waiting)


def test_a_host_name_need_not_match_if_so_configured(stage: SecuredStage) -> None:
    lenient = stage.ensemble.tls(endpoint_identification_algorithm="")
    by_address = f"127.0.0.1:{stage.ensemble.server.tls_port}"
    stage.restart({"zookeeper.set.acl": "true", **lenient, **stage.ensemble.sasl()}, by_address)
    stage.bridge.wait_dual_write()


# ---------------------------------------------------------------- another chroot
@pytest.mark.requirement("C12")
def test_the_chroot_of_another_cluster_is_refused(
    stage: SecuredStage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two clusters on one ensemble: nothing is written into that which is not ours."""
    client = stage.client
    client.ensure_path("/elsewhere/cluster")
    if not client.exists("/elsewhere/cluster/id"):
        other = {"version": "1", "id": "YW5vdGhlci1jbHVzdGVyIQ"}
        client.create("/elsewhere/cluster/id", json.dumps(other).encode())
    before = below(client, "/elsewhere")
    hosts = f"{stage.ensemble.server.hosts}/elsewhere"
    folder = tmp_path_factory.mktemp("elsewhere")
    bridge = Bridge(folder, hosts, properties=stage.usual).format("bm9kZS1vbi16b29rZWVwZQ")
    try:
        bridge.start()
        why = reason(bridge, "belongs to cluster YW5vdGhlci1jbHVzdGVyIQ")
        assert "formatted for cluster bm9kZS1vbi16b29rZWVwZQ" in why
        assert below(client, "/elsewhere") == before
    finally:
        bridge.kill()


def below(client: KazooClient, path: str) -> dict[str, int]:
    found = {path: client.exists(path).mzxid}
    for child in client.get_children(path):
        found |= below(client, f"{path}/{child}")
    return found


# ---------------------------------------------------------------- a real broker
@pytest.mark.requirement("C10", "C11")
def test_a_real_broker_with_the_same_properties_migrates(
    ensemble: Ensemble,
    tmp_path_factory: pytest.TempPathFactory,
    real_brokers: Callable[[KafkaCluster], KafkaCluster],
) -> None:
    """SASL over TLS with zookeeper.set.acl: what its own controller makes has the ACLs of ours."""
    folder = tmp_path_factory.mktemp("broker")
    hosts = f"{ensemble.tls_hosts}/kafka"
    shared = {"zookeeper.set.acl": "true", **ensemble.tls()}
    cluster = real_brokers(KafkaCluster("3.9.2", folder, hosts, count=1, properties=shared))
    (broker,) = cluster.brokers
    broker.java_flags = (f"-Djava.security.auth.login.config={ensemble.jaas('kafka')}",)
    bridge = Bridge(folder, hosts, properties={**shared, **ensemble.sasl()})
    with ensemble.client() as client:
        try:
            cluster.start().wait_ready()
            administer(broker, "theirs", "0")
            theirs = acls(client, "theirs", "0")
            bridge.format(json.loads(client.get("/kafka/cluster/id")[0])["id"])
            broker.stop()
            broker.migrate(bridge.port).start()
            bridge.start().wait_dual_write()
            broker.wait_started()
            cluster.wait_ready()
            administer(broker, "ours", "")
            bridge.wait_drained()
            ours = acls(client, "ours", "<default>")
            made = {
                p: shown(client.get_acls("/kafka" + p)[0]) for p in ("/migration", "/controller")
            }
            consumers = shown(client.get_acls("/kafka/consumers")[0])
        finally:
            bridge.kill()
    by_us = owned("kafka")
    assert ours == theirs
    assert set(map(frozenset, theirs)) == {frozenset(by_us), frozenset(by_us | WORLD_READ)}
    assert list(made.values()) == [by_us | WORLD_READ] * 2
    assert consumers == {(31, "world", "anyone")}


def administer(broker: KafkaBroker, topic: str, config: str) -> None:
    """Make a topic with a config, and a broker's config, through the broker."""

    async def work() -> None:
        await api.create_topics(broker.bootstrap, [api.topic(topic, 1, 1, {"retention.ms": "1"})])
        await api.set_configs(broker.bootstrap, BROKER, config, {"log.cleaner.threads": "2"})

    asyncio.run(work())


def acls(client: KazooClient, topic: str, config: str) -> list[set[tuple[int, str, str]]]:
    """Of the znodes that :func:`administer` leads to."""
    paths = (
        f"/brokers/topics/{topic}",
        f"/brokers/topics/{topic}/partitions/0/state",
        f"/config/topics/{topic}",
        f"/config/brokers/{config}",
    )
    wait_for("the znodes", lambda: all(client.exists("/kafka" + path) for path in paths))
    return [shown(client.get_acls("/kafka" + path)[0]) for path in paths]
