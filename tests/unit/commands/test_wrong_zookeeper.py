"""What answers at ``zookeeper.connect`` may be anything: each verb ends with one sentence."""

from __future__ import annotations

import math
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator import cli
from emulator.commands.format.asking import ZooKeeperAnswer, zookeeper
from emulator.commands.zk import client as zk_client
from emulator.commands.zk.client import END_S
from emulator.config.zookeeper import OPEN
from emulator.znodes import brokers, cluster
from tests.unit.commands.running import CLUSTER, run
from tests.unit.commands.scripted_zookeeper import (
    CHILDREN,
    DATA,
    SYNC,
    Raw,
    Script,
    children,
    data_of,
    framed,
    scripted,
    session_of,
)

pytestmark = pytest.mark.usefixtures("no_thread_dies")
GIB = 1 << 30
NOT_ZOOKEEPERS = "the answer is not ZooKeeper's ("


@pytest.fixture
def no_thread_dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Fails the test in which a thread ends with an error."""
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: died.append(str(args)))
    yield died
    assert not died


def saying(kids: bytes | None = None, data: bytes | None = None) -> Script:
    return lambda kind, _path: {CHILDREN: kids, DATA: data, SYNC: framed(b"/")}.get(kind)


ID = data_of(cluster.encode(CLUSTER))
WRONG = {
    "names that are no UTF-8": saying(children(b"\xff\xfe"), ID),
    "an answer that is cut": saying(struct.pack(">i", 2) + b"\0\0\0\1", ID),
    "children without an end": saying(struct.pack(">i", 1 << 30), ID),
    "a length of a name beyond the answer": saying(struct.pack(">ii", 1, GIB) + b"1", b"\0"),
    "a negative frame": saying(Raw(struct.pack(">i", -5)), ID),
    "an unknown code": saying(Raw(struct.pack(">iiqi", 16, 1, 0, 12_345)), ID),
    "another request's answer": saying(Raw(struct.pack(">iiqi", 16, 99, 0, 0)), ID),
    "data without a stat": saying(children(), b"\0\0\0\1x"),
}


def asked(hosts: str, patience_s: float = 5) -> ZooKeeperAnswer:
    return zookeeper(hosts, OPEN, patience_s)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_a_reason(name: str) -> None:
    with scripted(WRONG[name]) as hosts:
        found = asked(hosts, 60)
    assert found.why.startswith(NOT_ZOOKEEPERS), found


@pytest.mark.parametrize("session", [b"", b"\0" * 7, Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")])
def test_a_wrong_first_answer_is_a_reason(session: bytes) -> None:
    with scripted(saying(), session) as hosts:
        found = asked(hosts, 0.5)
    assert found.why, found


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_are_a_reason(seed: int) -> None:
    rng = random.Random(seed)

    def script(_kind: int, _path: str) -> bytes:
        data = rng.randbytes(rng.randrange(200))
        return Raw(data) if seed % 2 else data

    with scripted(script) as hosts:
        found = asked(hosts, 1)
    assert found.why or not found.brokers, found


@pytest.mark.parametrize(("size", "why"), [(2 * GIB - 1, "a frame of 2147483647 b"), (GIB, "")])
def test_a_frame_that_is_announced_is_not_allocated(size: int, why: str) -> None:
    with scripted(saying(Raw(struct.pack(">i", size) + b"x"), ID)) as hosts:
        tracemalloc.start()
        try:
            found = asked(hosts, 1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (bool(found.why), why in found.why) == (True, True), found
    assert peak < GIB // 8


def test_children_that_are_no_ids_are_left_out_with_a_line(properties: Path) -> None:
    znode = brokers.encode([], None, 1)

    def script(kind: int, path: str) -> bytes | None:
        if kind == CHILDREN:
            return children(b"..", b"1", b"a\nb\x1b[2J", b"007", b"")
        return ID if path == cluster.PATH else data_of(znode)

    with scripted(script) as hosts, properties.open("a") as file:
        file.write(f"zookeeper.connect={hosts}\nzookeeper.metadata.migration.enable=true\n")
        file.flush()
        code, _, err = run("format", "-c", properties, "-t", CLUSTER, "-r", "3.9")
    assert code == 0, err
    left_out = "'', .., 007 … (4) are no ids of brokers, and left out"
    no_listener = "it has no listener PLAINTEXT (inter.broker.listener.name), and no other"
    assert err.splitlines() == [
        f"not checked: -r 3.9: {brokers.ROOT}: {left_out}",
        f"not checked: -r 3.9: broker 1: {no_listener}",
    ]


def test_a_verb_that_reads_the_tree_ends_with_a_sentence_too() -> None:
    with scripted(WRONG["an answer that is cut"]) as hosts:
        code, _, err = run("zk", "dump", "--zookeeper", hosts)
    assert (code, "Traceback" in err, hosts in err) == (3, False, True), err
    assert NOT_ZOOKEEPERS in err


def test_a_session_whose_server_is_silent_ends_at_once() -> None:
    """Kazoo would wait for the session's timeout."""
    release = threading.Event()

    def silent(_kind: int, _path: str) -> bytes | None:
        release.wait()
        return None

    with scripted(silent, session_of(600_000)) as hosts:
        client = zk_client.client(hosts, timeout_s=600)
        client.start(60)
        client.get_async("/")
        ending = threading.Thread(target=client.stop, daemon=True)
        ending.start()
        ending.join(60)
        assert not ending.is_alive()
        client.close()
        release.set()


PATIENT = """
import sys
from emulator import cli
from emulator.commands.format import command
command.NEEDED_S = 600
cli.main()
"""


def test_ctrl_c_ends_format_at_once(properties: Path) -> None:
    """The server accepts, and says nothing."""
    with ExitStack() as stack, properties.open("a") as file:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        hosts = f"127.0.0.1:{server.getsockname()[1]}"
        file.write(f"zookeeper.connect={hosts}\nzookeeper.metadata.migration.enable=true\n")
        file.flush()
        verb = [sys.executable, "-c", PATIENT, "format", "-c", str(properties)]
        running = stack.enter_context(subprocess.Popen(verb, stderr=subprocess.PIPE, text=True))
        stack.callback(running.kill)
        for _ in range(2):  # looked for, then connected to
            stack.enter_context(server.accept()[0])
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")


@pytest.mark.slow
def test_no_wait_for_zookeeper_is_longer_than_ctrl_c_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in 400 comes just before the system call, and is seen when the wait is over."""
    waits: list[float] = []
    whole = threading.Condition.wait

    def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        starts = sys._getframe(2).f_code is threading.Thread.start.__code__
        if threading.current_thread() is threading.main_thread() and not starts:
            waits.append(math.inf if timeout is None else timeout)
        return whole(condition, timeout)

    monkeypatch.setattr(threading.Condition, "wait", wait)
    answering = threading.Event()

    def slow(kind: int, _path: str) -> bytes | None:
        answering.wait(1)
        return ID if kind == DATA else children()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asked(f"127.0.0.1:{silent.getsockname()[1]}", 1).why
    with scripted(slow, session_of(600_000)) as hosts:
        assert not asked(hosts, 60).why
        longest = max(waits)
    assert len(waits) > 10
    assert longest <= END_S


def test_a_thread_of_kazoo_that_dies_prints_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def died(in_module: str) -> str:
        where = {"__name__": in_module}
        exec("def run(): raise IndexError('x')", where)
        thread = threading.Thread(target=where["run"])
        before, threading.excepthook = threading.excepthook, cli._thread_died
        try:
            thread.start()
            thread.join()
        finally:
            threading.excepthook = before
        return capsys.readouterr().err

    assert died("kazoo.protocol.connection") == ""
    assert "IndexError: x" in died("emulator.io.disk")
