"""``zk start``: what is wrong with the port is said before Java is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from emulator.servers.zookeeper import hold
from tests.unit.commands.running import run


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        code, out, complaint = run("zk", "start", "--port", port, "--data", str(tmp_path / "zk"))
    assert (code, out) == (1, "")
    assert complaint == f"kraft-bridge: --port {port}: Address already in use\n"
    assert not (tmp_path / "zk").exists()


def test_a_folder_that_another_one_uses_is_refused(tmp_path: Path) -> None:
    """Both ran, on one log."""
    with hold(tmp_path):
        code, _, complaint = run("zk", "start", "--port", "0", "--data", str(tmp_path))
        assert code == 1
        assert f"{tmp_path} is in use by another ZooKeeper" in complaint
    with hold(tmp_path):
        pass


@pytest.mark.parametrize("port", ["65536", "-1", "zookeeper"])
def test_what_is_no_port_is_a_wrong_option(port: str) -> None:
    code, _, complaint = run("zk", "start", f"--port={port}")
    assert code == 2
    assert "--port" in complaint
