"""One connection and one queue per ZooKeeper-mode broker, over bytes.

Owns: the outbound connections to brokers, their queues, reconnects, replies. Knows nothing of
images: what to send and to whom is decided by ``propagation.py``.

Source: ControllerChannelManager.RequestSendThread, Kafka 3.9. As there: no ApiVersions is sent
(versions follow metadata.version), one request is in flight per broker, a socket failure is retried
after 100 ms for as long as the broker is registered and unfenced, and a reply with an error is
logged and counted, not retried: the next change or the next registration repairs it. One case is
ours: a broker that was killed while it made a partition holds a log folder without a topic id, and
such a broker (LogManager.findStrayReplicas, Kafka 3.6-3.9) fails a whole FULL LeaderAndIsr; it is
sent the same once more as INCREMENTAL, which looks for no strays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from emulator.seam import Close, Closed, Connect, Connected, Effect, Event, Log, Received, Send
from wire import messages as m
from wire.errors import DecodeError, ErrorCode
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed

RECONNECT_MS: Final = 100
CONNECT_TIMEOUT_MS: Final = 10_000
"""``socket.connection.setup.timeout.ms``. Without it a broker whose network swallows packets
would be tried again only when the kernel gives up, minutes after the network is whole again."""
REPLY_TIMEOUT_MS: Final = 30_000
"""``controller.socket.timeout.ms``: after this time without a reply we reconnect."""
REPLY_BYTES_MAX: Final = 100 * 1024 * 1024

TYPE_UNKNOWN: Final = 0
TYPE_INCREMENTAL: Final = 1
TYPE_FULL: Final = 2
"""``type`` of LeaderAndIsr and UpdateMetadata (AbstractControlRequest.Type)."""

ControlRequest = m.LeaderAndIsrRequest | m.UpdateMetadataRequest | m.StopReplicaRequest
ControlResponse = m.LeaderAndIsrResponse | m.UpdateMetadataResponse | m.StopReplicaResponse
APIS: Final[Mapping[type, tuple[int, int]]] = {
    m.LeaderAndIsrRequest: (4, 7),
    m.StopReplicaRequest: (5, 4),
    m.UpdateMetadataRequest: (6, 8),
}
"""API key and the version a controller at metadata.version 8 (3.4-IV0) and above sends (V04)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a broker listens for its controller, and which life of it that is.

    A change of any field makes a new connection and drops what was queued for the former one.
    """

    broker_id: int
    epoch: int
    host: str
    port: int


@dataclass(slots=True)
class _Channel:
    peer: Peer
    conn: int
    connected: bool = False
    frames: FrameReader = field(default_factory=lambda: FrameReader(REPLY_BYTES_MAX))
    queue: deque[ControlRequest] = field(default_factory=deque)
    in_flight: ControlRequest | None = None
    correlation_id: int = -1
    deadline_ms: int | None = None
    """When to reconnect (waiting), or to give up on the connection or the reply."""
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class PartitionError:
    """One error in a reply; ``topic`` is empty for an error of the whole request."""

    topic: str
    partition: int
    error_code: int


class Channels:
    """The queues of all ZooKeeper-mode brokers.

    Invariants: requests leave a queue in the order they were put; at most one is unanswered per
    broker; a request whose reply was lost is sent again, since each of the three requests may be
    applied twice without harm.
    """

    def __init__(self, node_id: int, new_conn: Callable[[], int]) -> None:
        self._client_id = str(node_id)
        self._new_conn = new_conn
        self._channels: dict[int, _Channel] = {}
        self._by_conn: dict[int, _Channel] = {}
        self.sent_count = 0
        self.error_count = 0
        self.reconnect_count = 0

    @property
    def peers(self) -> Mapping[int, Peer]:
        """Broker id -> the peer a channel exists for."""
        return {broker_id: channel.peer for broker_id, channel in self._channels.items()}

    @property
    def queued(self) -> int:
        """Requests put and not answered yet, over all brokers."""
        return sum(len(c.queue) + (c.in_flight is not None) for c in self._channels.values())

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` wants to be called."""
        return min(
            (c.deadline_ms for c in self._channels.values() if c.deadline_ms is not None),
            default=None,
        )

    def owns(self, conn: int) -> bool:
        """Whether an event of this connection is ours."""
        return conn in self._by_conn

    def set_peers(self, peers: Mapping[int, Peer]) -> list[Effect]:
        """Open, keep and close channels so that exactly ``peers`` have one.

        Args:
            peers: broker id -> peer, only registered, migrating and unfenced ZooKeeper-mode brokers
                (U05).
        """
        effects: list[Effect] = []
        for broker_id in [*self._channels]:
            if peers.get(broker_id) != self._channels[broker_id].peer:
                effects += self._drop(self._channels.pop(broker_id))
        for broker_id, peer in peers.items():
            if broker_id not in self._channels:
                channel = _Channel(peer, -1)
                self._channels[broker_id] = channel
                effects += self._connect(channel)
        return effects

    def put(self, broker_id: int, request: ControlRequest, now_ms: int) -> list[Effect]:
        """Queue a request; dropped when the broker has no channel, as in Kafka."""
        channel = self._channels.get(broker_id)
        if channel is None:
            return []
        channel.queue.append(request)
        if not channel.connected and channel.deadline_ms is None:
            channel.deadline_ms = now_ms + CONNECT_TIMEOUT_MS
        return self._pump(channel, now_ms)

    def close(self) -> list[Effect]:
        """Close every channel and forget every queue."""
        return self.set_peers({})

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take an event of one of our connections."""
        match event:
            case Connected(conn) if conn in self._by_conn:
                channel = self._by_conn[conn]
                channel.connected = True
                channel.deadline_ms = None
                return self._pump(channel, now_ms)
            case Received(conn, data) if conn in self._by_conn:
                return self._received(self._by_conn[conn], data, now_ms)
            case Closed(conn, why) if conn in self._by_conn:
                return self._lost(self._by_conn[conn], why, now_ms)
            case _:
                return []

    def tick(self, now_ms: int) -> list[Effect]:
        """Reconnect, and give up on connections and replies that are too late."""
        effects: list[Effect] = []
        for channel in self._channels.values():
            if channel.deadline_ms is None or channel.deadline_ms > now_ms:
                continue
            if channel.waiting:
                effects += self._connect(channel)
                channel.deadline_ms = now_ms + CONNECT_TIMEOUT_MS
            else:
                conn = channel.conn
                why = "no reply in time" if channel.connected else "no connection in time"
                effects += [Close(conn), *self._lost(channel, why, now_ms)]
        return effects

    def _connect(self, channel: _Channel) -> list[Effect]:
        channel.conn = self._new_conn()
        channel.frames = FrameReader(REPLY_BYTES_MAX)
        channel.connected = False
        channel.waiting = False
        channel.deadline_ms = None
        self._by_conn[channel.conn] = channel
        return [Connect(channel.conn, channel.peer.host, channel.peer.port)]

    def _drop(self, channel: _Channel) -> list[Effect]:
        if self._by_conn.pop(channel.conn, None) is None:
            return []
        return [Close(channel.conn)]

    def _lost(self, channel: _Channel, why: str, now_ms: int) -> list[Effect]:
        self._by_conn.pop(channel.conn, None)
        if channel.in_flight is not None:
            channel.queue.appendleft(channel.in_flight)
            channel.in_flight = None
        channel.connected = False
        channel.waiting = True
        channel.deadline_ms = now_ms + RECONNECT_MS
        self.reconnect_count += 1
        fields: dict[str, object] = {"broker": channel.peer.broker_id, "why": why}
        return [Log("debug", "broker channel lost", fields)]

    def _pump(self, channel: _Channel, now_ms: int) -> list[Effect]:
        if not channel.connected or channel.in_flight is not None or not channel.queue:
            return []
        request = channel.queue.popleft()
        channel.in_flight = request
        channel.correlation_id += 1
        channel.deadline_ms = now_ms + REPLY_TIMEOUT_MS
        api_key, api_version = APIS[type(request)]
        header = RequestHeader(
            api_key=api_key,
            api_version=api_version,
            correlation_id=channel.correlation_id,
            client_id=self._client_id,
        )
        self.sent_count += 1
        return [Send(channel.conn, framed(encode_request(header, request)))]

    def _received(self, channel: _Channel, data: bytes, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        try:
            for frame in channel.frames.feed(data):
                effects += self._reply(channel, frame)
        except DecodeError as error:
            self.error_count += 1
            conn = channel.conn
            return [*effects, Close(conn), *self._lost(channel, str(error), now_ms)]
        return effects + self._pump(channel, now_ms)

    def _reply(self, channel: _Channel, frame: bytes) -> list[Effect]:
        request = channel.in_flight
        if request is None:
            raise DecodeError("reply", 0, "", 0, "a reply without a request")
        _, response = decode_response(*APIS[type(request)], frame)
        channel.in_flight = None
        channel.deadline_ms = None
        if _cannot_look_for_strays(request, response):
            self.error_count += 1
            assert isinstance(request, m.LeaderAndIsrRequest)
            request.type = TYPE_INCREMENTAL
            channel.queue.appendleft(request)
            about: dict[str, object] = {"broker": channel.peer.broker_id}
            return [Log("warning", "broker failed a full LeaderAndIsr; sent as incremental", about)]
        effects: list[Effect] = []
        for error in errors_of(response):
            self.error_count += 1
            effects.append(
                Log(
                    "warning",
                    "broker refused a control request",
                    {
                        "broker": channel.peer.broker_id,
                        "request": type(request).__name__,
                        "topic": error.topic,
                        "partition": error.partition,
                        "error": _error_name(error.error_code),
                    },
                )
            )
        return effects


def _cannot_look_for_strays(request: ControlRequest, response: object) -> bool:
    return (
        isinstance(request, m.LeaderAndIsrRequest)
        and isinstance(response, m.LeaderAndIsrResponse)
        and request.type == TYPE_FULL
        and response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    )


def errors_of(response: object) -> Iterator[PartitionError]:
    """The errors a reply of a broker carries, the one of the whole request first."""
    assert isinstance(response, ControlResponse), type(response)
    if response.error_code:
        yield PartitionError("", -1, response.error_code)
    if isinstance(response, m.LeaderAndIsrResponse):
        for topic in response.topics:
            for p in topic.partition_errors:
                if p.error_code:
                    yield PartitionError(topic.topic_id.hex(), p.partition_index, p.error_code)
    if isinstance(response, m.StopReplicaResponse):
        for q in response.partition_errors:
            if q.error_code:
                yield PartitionError(q.topic_name, q.partition_index, q.error_code)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
