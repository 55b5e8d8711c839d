"""Our controller as a process that runs out of space.

A disk that fills up is a clear end, and nothing acknowledged is lost. One that has room for records
but not for a snapshot is no end, nor is one that only holds the trace, which goes on once it can.

A small file system is a tmpfs in a mount namespace of its own, which ends with the test. Where no
namespace may be made, what is left is a bound on the size of a file (RLIMIT_FSIZE): the same part
of a write succeeds, but the error is EFBIG, and a new file, as a snapshot is, still has room.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator.io.kafka_client import Connection
from emulator.raft.snapshots import values_of
from emulator.servers.ports import HOST, free_port
from emulator.servers.process import ServerProcess
from emulator.trace.metrics import TRACE_MISSING_S
from tests.kit.requests import quota
from wire import messages as m
from wire import records as r
from wire.record_serde import decode_record

pytestmark = pytest.mark.slow

NODE_ID = 3000
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MAIN = "from emulator.cli import main; main()"
SIZE = 4 * 1024 * 1024
BLOCK = 4096
KINDS = m.AlterClientQuotasRequest


class SmallDisk:
    """A tmpfs of 4 MiB at ``inside`` for who enters its namespace, at ``path`` for us."""

    def __init__(self, inside: Path) -> None:
        inside.mkdir()
        self.inside = inside
        mount = f'mount -t tmpfs -o size={SIZE} none "$0" && echo mounted && exec cat'
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mount, inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.mounted = self._holder.stdout.readline() == b"mounted\n"
        self.path = Path(f"/proc/{self._holder.pid}/root{inside}")
        self.enter = ["nsenter", "--mount", "--target", str(self._holder.pid)]

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.path).free

    def fill(self, left: int) -> None:
        """Leave so many bytes."""
        with (self.path / "filler").open("ab") as file:
            file.write(bytes(self.free - left))

    def make_room(self) -> None:
        (self.path / "filler").unlink()

    def close(self) -> None:
        self._holder.communicate()


@cache
def may_mount() -> bool:
    """Whether this machine lets us mount in a namespace of our own."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


mounts = pytest.mark.skipif(not may_mount(), reason="no mount in a namespace of our own")


class Controller(ServerProcess):
    """Ours, without a migration; ``prefix`` is what starts it in its surroundings."""

    def __init__(self, folder: Path, data: Path, prefix: list[str], **more: str) -> None:
        super().__init__("controller", folder)
        self.port = free_port()
        self.prefix = prefix
        self.config = folder / "controller.properties"
        self.config.write_text(
            f"process.roles=controller\nnode.id={NODE_ID}\n"
            f"controller.quorum.voters={NODE_ID}@{HOST}:{self.port}\n"
            f"controller.listener.names=CONTROLLER\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
            f"listeners=CONTROLLER://{HOST}:{self.port}\nlog.dirs={data}\n"
            + "".join(f"{key.replace('_', '.')}={value}\n" for key, value in more.items())
        )
        assert self.ours("format", "-t", CLUSTER).wait() == 0, self.tail()

    def ours(self, verb: str, *rest: str) -> Controller:
        self.launch([*self.prefix, sys.executable, "-c", MAIN, verb, "-c", str(self.config), *rest])
        return self

    def begin(self) -> Controller:
        self.ours("controller").wait_line("leader of the metadata log")
        return self

    def ask_until_it_ends(
        self, name: str = "user", count: int = 100_000, connection: Connection | None = None
    ) -> list[str]:
        """Make quotas of one user after the other; those that were acknowledged."""
        answered: list[str] = []
        connection = connection or Connection(HOST, self.port, 30)
        try:
            for number in range(count):
                user = f"{name}-{number:06}".ljust(200, "x")
                answer = connection.call(quota(1e6, user))
                assert answer.entries[0].error_code == 0, answer
                answered.append(user)
        except OSError:
            pass
        finally:
            connection.close()
        return answered

    def users(self, data: Path) -> set[str]:
        """What the oldest snapshot and the log behind it hold; the log is read by our own tool."""
        command = [*self.prefix, sys.executable, "-c", MAIN, "log", "dump", "--log-dir", str(data)]
        dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = [json.loads(line) for line in dump.splitlines()]
        logged = {
            part["entity_name"]
            for row in rows
            if row["type"] == "ClientQuotaRecord"
            for part in row["data"]["entity"]
        }
        return logged | self._in_snapshot(data)

    def _in_snapshot(self, data: Path) -> set[str]:
        oldest = 'set -- "$0"/*/*.checkpoint; if [ -e "$1" ]; then cat "$1"; fi'
        command = [*self.prefix, "sh", "-c", oldest, str(data)]
        found = subprocess.run(command, capture_output=True, check=True).stdout
        records = (
            [decode_record(value)[0] for value in values_of("snapshot", found)] if found else []
        )
        return {
            str(part.entity_name)
            for record in records
            if isinstance(record, r.ClientQuotaRecord)
            for part in record.entity
        }


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "small")
    try:
        assert disk.mounted
        yield disk
    finally:
        disk.close()


@contextmanager
def started(controller: Controller) -> Iterator[Controller]:
    try:
        yield controller.begin()
    finally:
        controller.kill()


def said(controller: Controller) -> str:
    return "\n".join(controller.lines()[-3:])


@mounts
def test_a_disk_that_fills_while_records_are_appended(tmp_path: Path, small: SmallDisk) -> None:
    data = small.inside / "data"
    controller = Controller(tmp_path, data, small.enter)
    with started(controller):
        small.fill(left=64 * 1024)
        answered = controller.ask_until_it_ends()
        assert controller.wait() == 1
    assert 100 < len(answered) < 1_000
    assert "the disk failed: [Errno 28] No space left on device: '" in said(controller)
    assert ".log'; free disk space and start again; everything acknowledged is on the disk" in said(
        controller
    )
    assert small.free <= BLOCK, "the file status.url is removed at the end"

    controller.ours("controller")
    assert controller.wait() == 1, "there is still no room"
    assert "No space left on device" in said(controller)

    small.make_room()
    with started(controller):
        assert len(controller.ask_until_it_ends("later", 3)) == 3
        assert controller.stop() == 0
    assert set(answered) <= controller.users(data)


@mounts
def test_a_disk_without_room_for_a_snapshot_ends_nothing(tmp_path: Path, small: SmallDisk) -> None:
    data = small.inside / "data"
    controller = Controller(
        tmp_path, data, small.enter, metadata_log_max_record_bytes_between_snapshots="60000"
    )
    small.fill(left=256 * 1024)
    folder = small.path / "data" / "__cluster_metadata-0"
    with started(controller):
        answered = controller.ask_until_it_ends(count=300)
        assert "No space left on device" in controller.wait_line("snapshot not written")
        assert len(answered) == 300
        assert not list(folder.glob("*.checkpoint*"))
    (folder / "quorum-state.part").write_bytes(b"half")
    with started(controller):
        controller.wait_line("snapshot not written")
        assert not list(folder.glob("*.part"))
        answered += controller.ask_until_it_ends("next", 10)
        assert len(answered) == 310, "the next life goes on too"

    small.make_room()
    with started(controller):
        controller.wait_line("snapshot written")
        assert controller.stop() == 0
    assert set(answered) <= controller.users(data)


@mounts
def test_a_disk_that_fills_under_the_trace_is_a_gap_in_the_trace_alone(
    tmp_path: Path, small: SmallDisk
) -> None:
    trace = str(small.inside / "trace")
    controller = Controller(tmp_path, tmp_path / "data", small.enter, kraftbridge_trace_dir=trace)
    with started(controller):
        small.fill(left=0)
        assert "No space left on device" in controller.wait_line("the trace has ended")
        assert len(controller.ask_until_it_ends(count=50)) == 50
        small.make_room()
        controller.wait_line("the trace goes on")
        assert len(controller.ask_until_it_ends("later", count=50)) == 50
        assert controller.stop() == 0
    assert "the trace is not whole" not in said(controller)
    gauges = pq.read_table(small.path / "trace" / "gauges").to_pylist()
    assert [row for row in gauges if row["gauge"] == TRACE_MISSING_S.name and row["value"] > 0]


def test_files_that_may_grow_no_more(tmp_path: Path) -> None:
    """EFBIG in the place of ENOSPC, in a snapshot, then in the log; without the bound it goes on.

    The segments of the log stay small as long as snapshots can be stored.
    """
    data = tmp_path / "data"
    folder = data / "__cluster_metadata-0"
    controller = Controller(
        tmp_path, data, [], metadata_log_max_record_bytes_between_snapshots="20000"
    )
    controller.prefix = ["prlimit", "--fsize=60000"]
    with started(controller):
        answered = controller.ask_until_it_ends(count=350)
        assert "File too large" in controller.wait_line("snapshot not written")
        assert len(answered) == 350
        assert not list(folder.glob("*.part")), "half a file must not take space"
        assert len(list(folder.glob("*.checkpoint"))) == 2
        answered += controller.ask_until_it_ends("more")
        assert controller.wait() == 1
    assert 400 < len(answered) < 2_000
    assert "the disk failed: [Errno 27] File too large: '" in said(controller)
    controller.prefix = []
    with started(controller):
        assert "unfinished end of the log truncated" in "\n".join(controller.lines())
        controller.wait_line("snapshot written")
        assert len(controller.ask_until_it_ends("later", 3)) == 3
        assert controller.stop() == 0
    assert set(answered) <= controller.users(data)
