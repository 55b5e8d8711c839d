"""A stand-in broker agrees to control requests, and a controller gets to know it."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest

from bench.fleet.stand_in import StandIn
from bench.load.connection import Connection
from bench.rig.ports import HOST, free_port
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import FrameReader, decode_request, encode_response, framed
from wire.releases import broker_ranges, controller_ranges


@asynccontextmanager
async def listening():
    broker = StandIn(7, free_port(), "3.9", controller=(HOST, 1), cluster_id="a-cluster")
    await broker.listen()
    connection = await Connection.open((HOST, broker.port), "test", itertools.count())
    try:
        yield broker, connection
    finally:
        connection.close()
        await broker.close()


@pytest.mark.asyncio
async def test_every_control_request_is_answered_with_success():
    async with listening() as (broker, connection):
        for request in (m.LeaderAndIsrRequest(), m.UpdateMetadataRequest(), m.StopReplicaRequest()):
            answer, _ = await connection.call(request)
            assert answer.error_code == 0
    assert broker.received == {
        "ApiVersions": 1,
        "LeaderAndIsr": 1,
        "UpdateMetadata": 1,
        "StopReplica": 1,
    }


@pytest.mark.asyncio
async def test_versions_are_those_of_a_broker_in_zookeeper_mode():
    async with listening() as (_, connection):
        answer, _ = await connection.call(m.ApiVersionsRequest(), 3)
    listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert listed == dict(broker_ranges("3.9", mode="zk"))


@pytest.mark.asyncio
async def test_what_is_no_control_request_ends_the_connection():
    async with listening() as (broker, connection):
        with pytest.raises(ConnectionError):
            await connection.call(m.MetadataRequest(topics=[]))
    assert broker.received["nonsense"] == 1


class FakeController:
    """Registers everybody; answers each heartbeat with the next of ``heartbeats``."""

    def __init__(self, heartbeats):
        self.heartbeats = iter(heartbeats)
        self.registrations = []
        self.beats = []
        self.writers = []
        self.done = asyncio.Event()

    async def serve(self, reader, writer):
        self.writers.append(writer)
        frames = FrameReader()
        while data := await reader.read(65_536):
            for frame in frames.feed(data):
                header, request = decode_request(frame)
                reply = self.answer(request)
                if reply is None:
                    writer.close()
                    return
                parts = header.api_key, header.api_version, header.correlation_id, reply
                writer.write(framed(encode_response(*parts)))

    def answer(self, request):
        match request:
            case m.ApiVersionsRequest():
                kinds = m.ApiVersionsResponse.ApiVersion
                ranges = controller_ranges("3.9").items()
                return m.ApiVersionsResponse(
                    api_keys=[
                        kinds(api_key=key, min_version=low, max_version=high)
                        for key, (low, high) in ranges
                    ]
                )
            case m.BrokerRegistrationRequest():
                self.registrations.append(request)
                return m.BrokerRegistrationResponse(broker_epoch=40 + len(self.registrations))
            case m.BrokerHeartbeatRequest():
                self.beats.append(request)
                reply = next(self.heartbeats, None)
                if reply is None:
                    self.done.set()
                return reply


@pytest.mark.asyncio
async def test_it_registers_as_a_migrating_broker_and_again_once_a_heartbeat_is_refused():
    said = []
    controller = FakeController(
        [
            m.BrokerHeartbeatResponse(is_fenced=True),
            m.BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
            m.BrokerHeartbeatResponse(is_fenced=True),
        ]
    )
    server = await asyncio.start_server(controller.serve, HOST, 0)
    address = server.sockets[0].getsockname()[:2]
    broker = StandIn(
        7, free_port(), "3.9", controller=address, cluster_id="a-cluster", say=said.append
    )
    attending = asyncio.ensure_future(broker.attend())
    async with asyncio.timeout(30):
        await controller.done.wait()
    attending.cancel()
    await asyncio.gather(attending, return_exceptions=True)
    await broker.close()
    server.close()
    for writer in controller.writers:
        writer.close()
        await writer.wait_closed()
    first, second = controller.registrations[:2]
    assert first.is_migrating_zk_broker
    assert first.cluster_id == "a-cluster"
    assert len(first.log_dirs) == 1
    assert [each.port for each in first.listeners] == [broker.port]
    assert first.incarnation_id == second.incarnation_id
    assert [beat.broker_epoch for beat in controller.beats] == [41, 41, 42, 42]
    assert min(beat.current_metadata_offset for beat in controller.beats) > 42
    assert "broker 7: heartbeat refused, STALE_BROKER_EPOCH" in said
