"""One stand-in broker: a listener that agrees to everything, and a session at the controller."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Final

from bench.load.connection import Connection
from bench.rig.ports import HOST
from wire import messages as m
from wire.errors import DecodeError, ErrorCode
from wire.frame import FrameReader, encode_response, framed, split_request
from wire.releases import broker_ranges
from wire.schema import spec

LISTENER: Final = "INTERNAL"
METADATA_VERSION: Final = 21

HEARTBEAT_S: Final = 1.0
_RETRY_S: Final = 0.2
_FAR_AHEAD: Final = 2**62
"""No log is followed, and a controller unfences only who has reached its registration."""

_AGREED: Final = {
    spec(m.LeaderAndIsrRequest).key: m.LeaderAndIsrResponse,
    spec(m.StopReplicaRequest).key: m.StopReplicaResponse,
    spec(m.UpdateMetadataRequest).key: m.UpdateMetadataResponse,
}
_API_VERSIONS: Final = spec(m.ApiVersionsRequest).key


class _Listener(asyncio.Protocol):
    """One connection from the controller. Bodies stay bytes: what they say is not judged here."""

    def __init__(
        self,
        received: Counter[str],
        versions: m.ApiVersionsResponse,
        held: set[asyncio.Transport],
    ) -> None:
        self._received = received
        self._versions = versions
        self._held = held
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._held.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's protocol
        """Forget the transport."""
        assert self._transport is not None
        self._held.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """Answer each whole frame; what is no control request ends the connection."""
        assert self._transport is not None
        try:
            for frame in self._frames.feed(data):
                self._transport.write(framed(self._answer(frame)))
        except DecodeError:
            self._received["nonsense"] += 1
            self._transport.abort()

    def _answer(self, frame: bytes) -> bytes:
        header, _ = split_request(frame)
        key = header.api_key
        version = header.api_version
        if key == _API_VERSIONS:
            self._received["ApiVersions"] += 1
            return encode_response(key, min(version, 4), header.correlation_id, self._versions)
        agreed = _AGREED.get(key)
        if agreed is None:
            raise DecodeError(f"request {key}", version, "", 0, "no control request")
        self._received[agreed.__name__.removesuffix("Response")] += 1
        return encode_response(key, version, header.correlation_id, agreed())


class StandIn:
    """One broker.

    Args:
        broker_id: its id.
        port: of its only listener, INTERNAL.
        release: what ApiVersions is answered like, ``3.9`` for one.
        say: takes a line for each thing worth knowing.
    """

    def __init__(self, broker_id: int, port: int, release: str, say: Callable[[str], None]) -> None:
        self.broker_id = broker_id
        self.port = port
        self.received: Counter[str] = Counter()
        """Kind of control request -> how many came."""
        self._say = say
        self._incarnation = uuid.uuid4().bytes
        self._log_dir = uuid.uuid4().bytes
        self._server: asyncio.Server | None = None
        self._held: set[asyncio.Transport] = set()
        self._versions = m.ApiVersionsResponse(
            api_keys=[
                m.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in broker_ranges(release, mode="zk").items()
            ]
        )

    async def listen(self) -> asyncio.Server:
        """Open the listener; it is open until ``close``, or until the server returned is closed.

        Raises:
            OSError: its port is taken.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Listener(self.received, self._versions, self._held), HOST, self.port
        )
        return self._server

    async def close(self) -> None:
        """Close the listener and what is connected to it."""
        for transport in self._held:
            transport.abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def attend(self, controller: tuple[str, int], cluster_id: str) -> None:
        """Stay registered with the controller until cancelled, whatever becomes of it."""
        while True:
            try:
                await self._session(controller, cluster_id)
            except OSError as error:  # ConnectionError and TimeoutError too
                self._say(f"broker {self.broker_id}: {error or type(error).__name__}")
            await asyncio.sleep(_RETRY_S)

    async def _session(self, controller: tuple[str, int], cluster_id: str) -> None:
        """Register once, then send heartbeats until one is refused."""
        client_id = f"stand-in-{self.broker_id}"
        connection = await Connection.open(controller, client_id, itertools.count())
        try:
            answer, _ = await connection.call(self._registration(cluster_id))
            if answer.error_code:
                self._refused("registration", answer.error_code)
                return
            self._say(f"broker {self.broker_id}: registered, epoch {answer.broker_epoch}")
            heartbeat = m.BrokerHeartbeatRequest(
                broker_id=self.broker_id,
                broker_epoch=answer.broker_epoch,
                current_metadata_offset=_FAR_AHEAD,
            )
            while True:
                answer, _ = await connection.call(heartbeat)
                if answer.error_code:
                    self._refused("heartbeat", answer.error_code)
                    return
                await asyncio.sleep(_RETRY_S if answer.is_fenced else HEARTBEAT_S)
        finally:
            connection.close()

    def _refused(self, what: str, error: int) -> None:
        self._say(f"broker {self.broker_id}: {what} refused, {ErrorCode(error).name}")

    def _registration(self, cluster_id: str) -> m.BrokerRegistrationRequest:
        kinds = m.BrokerRegistrationRequest
        return kinds(
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            incarnation_id=self._incarnation,
            listeners=[kinds.Listener(name=LISTENER, host=HOST, port=self.port)],
            features=[
                kinds.Feature(
                    name="metadata.version",
                    min_supported_version=METADATA_VERSION,
                    max_supported_version=METADATA_VERSION,
                )
            ],
            rack=None,
            is_migrating_zk_broker=True,
            log_dirs=(self._log_dir,),
        )
