"""The measurement of the request path: what it sends, counts and refuses."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bench.rpc import client, embedded, rates, snapshot
from bench.rpc.cluster import BROKERS, RpcCluster, RpcRefusedError, frame
from bench.rpc.memory import resident_bytes
from bench.rpc.requests import ALTER_PREFIX, KINDS
from bench.rpc.servers import OURS, running
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
    assert calls.percentile_ms(0.5) <= calls.percentile_ms(1.0)


def test_memory_is_that_of_the_process() -> None:
    assert resident_bytes(os.getpid()) > 10_000_000


def test_the_real_process_is_measured(tmp_path: Path) -> None:
    plan = rates.RatesPlan((OURS,), list(KINDS), (2,), 0.05, 1, warm_s=0.01)
    said: list[str] = []
    rows = rates.measure(plan, tmp_path, said.append)
    assert [row.kind for row in rows] == list(KINDS)
    assert all(row.rate > 0 for row in rows)
    assert len(said) == len(rows)
    assert len(rates.table(rows)) == 2 + len(KINDS)


def test_heartbeats_are_counted_while_snapshots_are_written(tmp_path: Path) -> None:
    said: list[str] = []
    with running(OURS, tmp_path) as server:
        without, beside = snapshot.measure(server, 300, 1.0, said.append)
    assert without.snapshots == 0
    assert beside.snapshots > 1
    assert beside.snapshot_bytes > 300 * 40
    assert beside.p50_ms <= beside.p99_ms <= beside.longest_ms
    assert beside.longest_step_ms is not None
    assert len(said) == 2


def test_snapshots_that_never_come_are_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "ALWAYS", snapshot.IDLE)
    with running(OURS, tmp_path) as server, pytest.raises(RpcRefusedError, match="no snapshot"):
        snapshot.measure(server, 100, 0.2, lambda _line: None)


def test_clusters_in_a_process_of_their_own_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "BROKERS", (0, 1))
    said: list[str] = []
    rows = embedded.starts(2, said.append)
    assert [(row.brokers, row.first) for row in rows] == [
        (0, True),
        (0, False),
        (1, False),
        (1, False),
    ]
    assert all(row.started_s > 0 and row.cpu_s > 0 for row in rows)
    assert [line.partition(":")[0] for line in said] == [
        "the first start",
        "0 brokers",
        "1 brokers",
    ]
