"""Controllers whose files name no metrics port: found by their files, by no other name, watched."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from emulator.io.formatting import new_cluster_id
from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.ports import HOST, free_ports
from emulator.servers.waiting import PATIENCE_S, wait_for

STATUS_URL = "status.url"


class Portless(Bridge):
    """A controller without ``kraftbridge.metrics.port``."""

    def __init__(self, folder: Path, node_id: int, voters: dict[int, int]) -> None:
        own = {
            "node.id": node_id,
            "controller.quorum.voters": ",".join(f"{n}@{HOST}:{at}" for n, at in voters.items()),
            "listeners": f"CONTROLLER://{HOST}:{voters[node_id]}",
        }
        super().__init__(folder / str(node_id), None, port=voters[node_id], properties=own)

    @property
    def url(self) -> str:
        try:
            return (self.data / STATUS_URL).read_text().strip()
        except FileNotFoundError:
            return f"http://{HOST}:1"

    def properties(self) -> dict[str, object]:
        found = super().properties()
        del found["kraftbridge.metrics.port"]
        return found


@contextlib.contextmanager
def running(folder: Path, *quorums: tuple[int, ...]) -> Iterator[dict[int, Portless]]:
    """Controllers of a new cluster, each with its quorum, that lead or follow.

    At the usual port another program's controller may answer, as another run of this file has:
    of the same id and cluster it would be taken for ours.
    """
    cluster_id = new_cluster_id()
    nodes: dict[int, Portless] = {}
    with contextlib.ExitStack() as stack:
        for quorum in quorums:
            voters = dict(zip(quorum, free_ports(len(quorum)), strict=True))
            for node_id in quorum:
                node = nodes[node_id] = Portless(folder, node_id, voters)
                node.format(cluster_id, new_quorum=len(quorum) > 1)
                stack.callback(node.kill)
        for node in nodes.values():
            node.start()
        for node in nodes.values():
            node.wait_status("a leader", lambda found: found["leader_id"] is not None)
        yield nodes


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", COMMAND, "status", *map(str, arguments)]


def status(*arguments: object) -> tuple[int, str, str]:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def code_of(url: str, host: str) -> int:
    request = urllib.request.Request(f"{url}/status", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.slow
def test_a_controller_without_a_port_is_found_by_its_file_and_no_other_is_taken_for_it(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        # If another program has it, that may end before the two take a port.
        held = False
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server((HOST, 9404)))
            held = True
        nodes = stack.enter_context(running(tmp_path, (3000,), (3001,)))
        one, other = nodes[3000], nodes[3001]
        files = [one.data / STATUS_URL, other.data / STATUS_URL]
        assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
        assert one.url != other.url
        assert not held or ":9404" not in one.url + other.url
        for node_id, node in nodes.items():
            code, out, err = status("-c", node.config, "--json")
            assert (code, json.loads(out)["node_id"], err) == (0, node_id, "")
        assert [code_of(one.url, host) for host in (f"{HOST}:1", "evil.example")] == [200, 403]

        one.kill()
        files[0].write_text(f"{other.url}\n")
        code, out, err = status("-c", one.config)
        assert (code, out) == (3, "")
        assert f"controller 3000 is not reached: {other.url}: controller 3001 answers there" in err

        other.stop()
        assert not files[1].exists()
        code, _, err = status("-c", other.config)
        assert code == 3
        assert "has no status.url, as a running controller's has" in err


@pytest.mark.slow
def test_a_quorum_is_watched_over_a_change_of_its_leader(tmp_path: Path) -> None:
    """On a machine under load there may be more changes than the one that is made here."""
    with running(tmp_path, (3000, 3001, 3002)) as nodes:
        files = [part for node in nodes.values() for part in ("-c", node.config)]
        shown(files, lambda found, err: found["node_id"] == found["leader_id"] and not err)

        watched = subprocess.Popen(command(*files, "--watch"), stdout=subprocess.PIPE, text=True)
        with watched:
            assert watched.stdout is not None
            seen = awaited(watched.stdout, "leader 300")
            killed = int(seen.partition("leader ")[2][:4])
            nodes[killed].kill()
            seen += awaited(watched.stdout, "leader 300", without=f"leader {killed}")
            assert "\x1b" not in seen
            watched.send_signal(signal.SIGINT)
            assert watched.wait(PATIENCE_S) == 130

        missed = f"controller {killed} is not reached: "
        led = shown(files, lambda found, err: found["leader_id"] != killed and missed in err)
        assert led["node_id"] != killed
        code, out, _ = status(*files)
        assert code == 0
        assert missed in out
        assert "Connection refused" in out


def shown(files: Sequence[object], holds: Callable[[dict[str, Any], str], bool]) -> dict[str, Any]:
    """The first answer of ``status --json`` of which, and of stderr, something holds."""

    def ask() -> dict[str, Any]:
        code, out, err = status(*files, "--json")
        found: dict[str, Any] = {} if code else json.loads(out)
        return found if found and holds(found, err) else {}

    return wait_for("such a status", ask)


def awaited(lines: IO[str], text: str, without: str = "\0") -> str:
    """The first line with a text, and without another one."""
    for line in lines:
        if text in line and without not in line:
            return line
    raise AssertionError(f"the lines end before {text}")


def test_a_reader_that_goes_ends_the_lines_quietly(tmp_path: Path) -> None:
    for more, code in (((), 0), (("--exit-when", "final"), 5)):
        line = command("--url", f"http://{HOST}:1", "--watch", *more)
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watched:
            assert watched.stdout is not None
            assert watched.stderr is not None
            assert b"no answer: http://127.0.0.1:1/status: Connection refused" in (
                watched.stdout.readline()
            )
            watched.stdout.close()
            assert (watched.wait(PATIENCE_S), watched.stderr.read()) == (code, b"")
