"""The measurement of the request path: what it sends, counts and refuses."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bench.micro import client, cluster, memory, rates, snapshot, start, steps
from bench.micro.memory import resident_bytes
from bench.micro.registrations import BROKERS, RpcCluster, RpcRefusedError, frame
from bench.micro.requests import ALTER_PREFIX, KINDS
from bench.micro.servers import OURS
from tests.unit.micro.asked import asked_of
from wire import messages as m
from wire.frame import decode_request, encode_response

CLUSTER = RpcCluster(0, dict.fromkeys(BROKERS, 7), {f"{ALTER_PREFIX}-000000": bytes(15) + b"t"})


def test_each_change_of_an_isr_follows_from_the_one_before() -> None:
    source = KINDS["alter-partition"].source(CLUSTER, 0)
    asked = [decode_request(source()[4:])[1].topics[0] for _ in range(3)]
    assert [one.topic_id for one in asked] == [bytes(15) + b"t"] * 3
    changes = [one.partitions[0] for one in asked]
    assert [one.partition_epoch for one in changes] == [0, 1, 2]
    members = [[state.broker_id for state in one.new_isr_with_epochs] for one in changes]
    assert members == [[*BROKERS[:2]], [*BROKERS], [*BROKERS[:2]]]


def test_each_creation_has_a_name_of_its_own() -> None:
    source = KINDS["create-topic"].source(CLUSTER, 0)
    names = {decode_request(source()[4:])[1].topics[0].name for _ in range(3)}
    assert len(names) == 3


def test_an_answer_that_is_an_error_is_noticed() -> None:
    calls = client.Calls()
    refused = m.BrokerHeartbeatResponse(error_code=77)
    calls.last[0] = encode_response(63, 1, 1, refused)
    with pytest.raises(RpcRefusedError, match="heartbeat"):
        KINDS["heartbeat"].check(calls)


def test_answers_are_counted_also_when_they_come_in_pieces() -> None:
    request = frame(m.ApiVersionsRequest(), 18, 0)
    answer = encode_response(18, 0, 1, m.ApiVersionsResponse())

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            assert data == request
            framed = len(answer).to_bytes(4, "big") + answer
            for part in (framed[:2], framed[2:7], framed[7:]):
                self.transport.write(part)

        def connection_lost(self, exc: Exception | None) -> None:
            gone.append(None)
            if len(gone) == 2:
                all_gone.set()

    gone: list[None] = []
    all_gone = asyncio.Event()

    async def work() -> client.Calls:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Server, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        calls = await client.call(port, [lambda: request] * 2, 0.05)
        await all_gone.wait()
        server.close()
        return calls

    calls = asyncio.run(work())
    assert calls.last == {0: answer, 1: answer}
    assert calls.rate > 0
    assert 0 < calls.longest_ms < 60_000


def test_memory_is_that_of_the_process() -> None:
    assert resident_bytes(os.getpid()) > 10_000_000


def test_the_real_process_is_measured(tmp_path: Path) -> None:
    options = ["--only", OURS, "--connections", "2", "--seconds", "0.05", "--rounds", "1"]
    asked = asked_of(rates, *options, "--warm-seconds", "0.01")
    rows = [*rates.rows(asked, tmp_path)]
    assert [row["request"] for row in rows] == [*KINDS]
    assert all(row["rate"] > 0 for row in rows)
    text, _ = rates.summary(rows)
    assert text.count("requests/s") == len(KINDS)


@pytest.mark.slow
def test_heartbeats_are_counted_while_snapshots_are_written(tmp_path: Path) -> None:
    asked = asked_of(snapshot, "--only", OURS, "--partitions", "300", "--seconds", "1")
    without, beside = snapshot.rows(asked, tmp_path)
    assert without["snapshots"] == 0
    assert beside["snapshots"] > 1
    assert beside["largest_bytes"] > 300 * 40
    # Of few heartbeats, on a slow machine, there is no 99th percentile.
    shares = [beside[name] for name in ("p50_ms", "p99_ms", "longest_ms")]
    known = [share for share in shares if share is not None]
    assert known == sorted(known)
    assert known[-1] == beside["longest_ms"]
    assert beside["longest_step_ms"] is not None


@pytest.mark.slow
def test_snapshots_that_never_come_are_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "ALWAYS", snapshot.IDLE)
    asked = asked_of(snapshot, "--only", OURS, "--partitions", "100", "--seconds", "0.2")
    with pytest.raises(RpcRefusedError, match="no snapshot"):
        list(snapshot.rows(asked, tmp_path))


@pytest.mark.slow
def test_memory_and_starts_are_of_a_controller_that_was_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row] = memory.rows(asked_of(memory, "--partitions", "300"), tmp_path)
    assert 0 < row["empty_mb"] < 1_000
    assert row["bytes_each"] != 0
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")
    found = [*start.rows(asked_of(start, "--partitions", "100", "--rounds", "2"), tmp_path)]
    assert all(one["listening_s"] > 0 and one["cpu_s"] > 0 for one in found)
    assert start.summary(found)[0].splitlines()[-1].startswith("| median |")


def test_a_large_request_is_timed_and_who_waits_for_it(tmp_path: Path) -> None:
    asked = asked_of(steps, "--only", OURS, "--partitions", "100")
    first = next(steps.rows(asked, tmp_path))
    assert first["request"] == "CreateTopics, 1 topic of 2,000 partitions"
    assert first["answer_ms"] > 0
    assert first["longest_wait_ms"] > 0


def test_clusters_in_a_process_are_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "BROKERS", (0, 1))
    rows = [*cluster.rows(asked_of(cluster, "--rounds", "1"), tmp_path)]
    later = [(0, True), (0, False), (1, True), (1, False)]
    assert [(row["brokers"], row["fsync"]) for row in rows] == [(1, True), *later]
    assert [row["which"] for row in rows] == [cluster.FIRST, *[cluster.LATER] * 4]
    assert all(row["start_s"] > 0 and row["cpu_s"] > 0 for row in rows)
