"""The kit itself: real servers behave as the fixtures promise."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError

from emulator.servers.fault_proxy import Kind
from emulator.servers.ports import is_open
from emulator.servers.process import PortTakenError, ServerProcess
from emulator.servers.seeded import connected
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper

SET_DATA = 5


@pytest.fixture
def admin():
    clients = []

    def connect(cluster):
        client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        clients.append(client)
        return client

    return connect


def create(client, *topics):
    for done in client.create_topics([*topics], request_timeout=30).values():
        done.result()


def test_zookeeper_keeps_its_data_over_a_kill(make_zookeeper):
    zk = make_zookeeper()
    with connected(zk.hosts) as client:
        client.create("/a", b"1")
    zk.kill()
    zk.start().wait_started()
    assert contents(dump(zk.hosts)) == {"/a": b"1"}


def test_a_taken_port_is_told_and_other_ports_are_chosen(zookeeper, brokers, tmp_path):
    with pytest.raises(PortTakenError):
        ZooKeeper(tmp_path, port=zookeeper.port).start().wait_line("never")
    cluster = brokers(count=1, zk=zookeeper.hosts + "/taken", start=False)
    (broker,) = cluster.brokers
    taken = broker.client_port
    with socket.create_server(("127.0.0.1", taken)):
        cluster.start()
    assert broker.client_port != taken


def test_a_lost_reply_leaves_the_change_in_zookeeper(zookeeper, zk_client, zk_tree, fault_proxy):
    zk_client.create("/lost", b"before")
    proxy = fault_proxy(zookeeper.port)
    victim = KazooClient(proxy.hosts, timeout=60)
    victim.start(timeout=PATIENCE_S)
    fault = proxy.plan(Kind.LOSE_REPLY, code=SET_DATA)
    with pytest.raises(ConnectionLoss):
        victim.set("/lost", b"after")
    assert fault.struck
    assert zk_tree()["/lost"] == b"after"
    victim.stop()
    victim.close()


def test_a_paused_zookeeper_answers_nobody(zookeeper, zk_client):
    with zookeeper.paused(), socket.create_connection(("127.0.0.1", zookeeper.port)) as asking:
        asking.sendall(b"ruok")
        asking.settimeout(0.2)
        with pytest.raises(TimeoutError):
            asking.recv(4)
    assert zookeeper.answers()
    with pytest.raises(NoNodeError):
        zk_client.get("/nothing")


def test_digests_and_scram_credentials_are_hidden(zookeeper, zk_client):
    secret = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}'
    zk_client.create("/config/users/alice", secret, makepath=True)
    shown = dump(zookeeper.hosts)["nodes"]["/config/users/alice"]
    assert json.loads(shown["text"])["config"] == {"SCRAM-SHA-256": "<redacted>"}
    whole = dump(zookeeper.hosts, with_secrets=True)
    assert whole["nodes"]["/config/users/alice"]["text"].encode() == secret


@pytest.mark.jvm
def test_zk_start_runs_until_it_is_told_to_end(tmp_path):
    command = ServerProcess("zk-start", tmp_path)
    data = ["--data", str(tmp_path / "data")]
    command.launch(
        [Path(sys.executable).with_name("kraft-bridge"), "zk", "start", "--port", "0", *data]
    )
    try:
        line = command.wait_line("ZooKeeper is ready at")
        hosts = re.search(r"127\.0\.0\.1:\d+", line)[0]
        assert dump(hosts)["nodes"] == {}
        assert command.stop() == 0
        assert not is_open(int(hosts.partition(":")[2]))
    finally:
        command.kill()


def test_three_brokers_create_a_topic(cluster, admin):
    create(admin(cluster), NewTopic("kit-topic", 3, 3))
    tree = contents(dump(cluster.zk))
    assert "/brokers/topics/kit-topic/partitions/2" in tree
    assert {f"/brokers/ids/{number}" for number in range(3)} <= tree.keys()


def test_an_old_broker_comes_back_with_its_data_and_ports(brokers, admin):
    cluster = brokers("3.4.1", count=1)
    create(admin(cluster), NewTopic("kept", 1, 1))
    (broker,) = cluster.brokers
    broker.stop()
    ports = broker.internal_port, broker.client_port
    cluster.start().wait_ready()
    assert ports == (broker.internal_port, broker.client_port)
    client = admin(cluster)
    wait_for("topic", lambda: "kept" in client.list_topics(timeout=300).topics)


def test_kafka_tools_and_compiled_helpers_run(kafka_tool, compile_java, tmp_path):
    assert "3.9.2" in kafka_tool("3.9.2", "kafka.Kafka", "--version")
    source = tmp_path / "Say.java"
    source.write_text(
        "class Say { public static void main(String[] a) { System.out.print(a[0]); } }"
    )
    classes = compile_java([source], [])
    from emulator.servers.java_tools import java

    assert java([classes], "Say", "hello") == b"hello"


LINGERS = """
public final class Lingers {
    public static void main(String[] words) throws Exception {
        var never = new java.util.concurrent.CountDownLatch(1);
        new Thread(() -> {
            try { never.await(); } catch (InterruptedException end) { }
        }).start();
        System.out.print("pid " + ProcessHandle.current().pid());
    }
}
"""


@pytest.mark.jvm
def test_the_process_of_the_tools_ends_with_its_input(tmp_path):
    source = tmp_path / "Lingers.java"
    source.write_text(LINGERS)
    program = (
        "import sys; from pathlib import Path; from emulator.servers.tool_host import ToolHost\n"
        "print(ToolHost(sources=[Path(sys.argv[1])]).start().run('Lingers').out, flush=True)\n"
        "import os; os._exit(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, source], capture_output=True, text=True, check=False
    )
    stat = Path("/proc", done.stdout.removeprefix("pid ").strip(), "stat")
    wait_for("end of Java", lambda: not stat.exists() or ") Z " in stat.read_text())
