"""Our controller as a process that many connect to and say nothing, or half a frame for ever.

Others are served meanwhile, and there are descriptors for the log and its snapshots.
"""

from __future__ import annotations

import resource
import select
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from emulator.io.kafka_client import Connection
from emulator.servers.ports import HOST
from tests.integration.test_full_disk import Controller, started
from wire import messages as m

pytestmark = pytest.mark.slow

SNAPSHOTS = {
    "metadata_log_max_record_bytes_between_snapshots": "20000",
    "metadata_log_segment_bytes": "10000",
}


def dialled(controller: Controller, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection((HOST, controller.port), 300))


def ended(one: socket.socket) -> bool:
    """Whether the other side has closed; waits for it."""
    one.settimeout(300)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def served(controller: Controller) -> bool:
    with closing(Connection(HOST, controller.port, 30)) as connection:
        return connection.call(m.DescribeClusterRequest(endpoint_type=2)).error_code == 0


def open_descriptors(controller: Controller) -> int:
    return len(list(Path(f"/proc/{controller.pid}/fd").iterdir()))


def test_there_are_descriptors_for_the_log_when_connections_have_used_up_theirs(
    tmp_path: Path,
) -> None:
    """The soft limit of 100 is raised to 200, of which connections may have 150."""
    limit = ["prlimit", "--nofile=100:200"]
    controller = Controller(tmp_path, tmp_path / "data", limit, **SNAPSHOTS)
    with started(controller), ExitStack() as stack:
        connection = Connection(HOST, controller.port, 30)
        stack.callback(connection.close)
        many = [dialled(controller, stack) for _ in range(300)]
        assert all(ended(one) for one in many[-100:])
        assert 150 <= open_descriptors(controller) < 190
        assert len(controller.ask_until_it_ends("user", 400, connection)) == 400
        controller.wait_line("snapshot written")
        for one in many[:20]:
            one.close()
        controller.wait_until("room", lambda: open_descriptors(controller) < 165)
        assert served(controller)
        assert sum("refusing a connection" in line for line in controller.lines()) == 1


def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000
    assert hard == resource.RLIM_INFINITY or hard > wanted + 1_000, "limit of open files"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 1_000), hard))
    controller = Controller(tmp_path, tmp_path / "data", [], **SNAPSHOTS)
    with started(controller), ExitStack() as stack:
        many = [dialled(controller, stack) for _ in range(wanted)]
        for one in many[::2]:
            one.sendall(b"\0\0\1")
        assert served(controller)
        assert open_descriptors(controller) > wanted
        assert len(controller.ask_until_it_ends("user", 400)) == 400
        controller.wait_line("snapshot written")


def test_who_is_idle_is_closed_and_who_asks_is_not(tmp_path: Path) -> None:
    """Nothing, the half of a length, the half of a frame: all the same."""
    limits = {"connections_max_idle_ms": "3000", "max_connections_per_ip": "6"}
    controller = Controller(tmp_path, tmp_path / "data", [], **limits)
    with started(controller), ExitStack() as stack:
        controller.wait_until("its first records", lambda: served(controller))
        connection = Connection(HOST, controller.port, 30)
        stack.callback(connection.close)
        idle = [dialled(controller, stack) for _ in range(4)]
        idle[1].sendall(b"\0\0")
        idle[2].sendall(b"\0\0\0\x20\0\x12")
        idle[3].shutdown(socket.SHUT_WR)
        for one in idle:
            one.setblocking(False)
        left = set(idle)
        while left:
            assert connection.call(m.DescribeClusterRequest(endpoint_type=2)).error_code == 0
            ready, _, _ = select.select(list(left), [], [], 0.5)
            left -= {one for one in ready if one.recv(1) == b""}
