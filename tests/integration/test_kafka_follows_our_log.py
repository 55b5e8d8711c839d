"""Kafka 3.9.2 on our log: a broker downloads our snapshot, a controller takes our folder over."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.io.kafka_client import Connection
from emulator.raft.format import MetaProperties, render_meta_properties
from emulator.servers.kafka import CONTROLLER_ID, KafkaBroker, KraftController
from emulator.servers.ports import HOST, free_port
from emulator.servers.process import ServerProcess
from tests.kit.requests import quota
from wire.batch import NO_SEQUENCE, decode_batches

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


class Ours(ServerProcess):
    """Our controller without migration, snapshotting after every few records."""

    def __init__(self, folder: Path) -> None:
        super().__init__("ours", folder)
        self.port = free_port()
        self.data = folder / "ours-data"
        self.config = folder / "ours.properties"

    def run(self, *arguments: str) -> Ours:
        self.folder.mkdir(exist_ok=True)
        self.config.write_text(
            f"process.roles=controller\nnode.id={CONTROLLER_ID}\n"
            f"controller.quorum.voters={CONTROLLER_ID}@{HOST}:{self.port}\n"
            f"controller.listener.names=CONTROLLER\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\nlisteners=CONTROLLER://{HOST}:{self.port}\n"
            f"log.dirs={self.data}\nmetadata.log.max.record.bytes.between.snapshots=200\n"
        )
        start = "from emulator.cli import main; main()"
        verb, *rest = arguments
        return self.launch([sys.executable, "-c", start, verb, "-c", self.config, *rest])


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """Formatted, started, and past its first snapshots."""
    controller = Ours(tmp_path_factory.mktemp("node"))
    assert controller.run("format", "-t", CLUSTER).wait() == 0
    with ExitStack() as stack:
        stack.callback(controller.kill)
        controller.run("controller").wait_line("snapshot written")
        yield controller


@pytest.fixture(scope="module")
def broker(ours: Ours) -> Iterator[KafkaBroker]:
    """A KRaft broker that started on an empty log."""
    broker = KafkaBroker(RELEASE, 1, ours.folder, None, controller_port=ours.port)
    broker.data.mkdir()
    meta = MetaProperties(CLUSTER, 1, bytes(range(100, 116)))
    (broker.data / "meta.properties").write_bytes(render_meta_properties(meta))
    with ExitStack() as stack:
        stack.callback(broker.kill)
        yield broker.start().wait_started()


def sequences(data: Path) -> bool:
    """Whether a broker's log holds a batch that says where its group of one sync begins."""
    return any(
        batch.base_sequence != NO_SEQUENCE
        for path in (data / "__cluster_metadata-0").glob("*.log")
        for batch in decode_batches(path.read_bytes(), whole_only=False)
    )


def append_at_the_same_time(ours: Ours) -> None:
    """Have several batches written by one sync: what comes during a sync is the next group."""
    users = [f"{time.monotonic_ns()}-{caller}" for caller in range(8)]

    def change(user: str) -> None:
        connection = Connection(HOST, ours.port, 30)
        for number in range(10):
            connection.call(quota(1e6, f"{user}-{number}"))
        connection.close()

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(change, users))


def test_a_broker_follows_by_snapshot_by_restart_and_by_kafkas_own_controller(ours, broker):
    """One story, since a broker takes longer to start than all of this."""
    broker.wait_line("Fetching snapshot OffsetAndEpoch(")
    broker.wait_line("after downloading snapshot OffsetAndEpoch(")
    for _ in range(10):
        append_at_the_same_time(ours)
        if sequences(broker.data):
            break
    broker.wait_until("a batch that is not the first of its sync", lambda: sequences(broker.data))

    ours.kill()
    ours.run("controller")
    broker.wait_line(f"epoch=2, leader={CONTROLLER_ID}")
    assert ours.stop() == 0

    kafka = KraftController(RELEASE, ours.folder, None, CLUSTER, port=ours.port)
    kafka.data = ours.data
    with kafka:
        kafka.wait_line("Completed transition to Leader(")
        broker.wait_line(f"epoch=3, leader={CONTROLLER_ID}")
    kafka.stop()

    # Kafka's log, checkpoints and election state are ours to go on from again.
    ours.run("controller")
    broker.wait_line(f"epoch=4, leader={CONTROLLER_ID}")
    assert broker.alive
    # Its log may add stack traces of files that it deletes with what a snapshot replaced.
    by_raft = [line for line in broker.lines() if "[RaftManager id=1]" in line]
    truncations = [line for line in by_raft if "runcat" in line]
    assert all("after downloading snapshot" in line for line in truncations), truncations
