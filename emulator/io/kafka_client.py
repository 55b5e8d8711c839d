"""A blocking client for one command: find the controller, send it a request, read the answer.

Metadata responses name the node for administrative requests: the controller in ZooKeeper mode, else
any broker, which forwards them (KIP-590). Source: KafkaAdminClient, Kafka 3.9.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from emulator.config.listeners import HostPort
from emulator.config.tls import TlsSettings
from emulator.io.reach import none_of, why_unreachable
from emulator.io.tls import context, explain
from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    EndedBy,
    Opened,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.greeting import Greeting, NoCommonVersionError
from emulator.net.login import Login, LoginError, login_of
from emulator.seam import Closed, Connect, Connected, Effect, Event, Received, Send
from wire import messages as m
from wire.errors import ErrorCode, named

__all__ = [
    "BROKER_S",
    "CLIENT_ID",
    "GREETING_S",
    "PAUSE_S",
    "Connection",
    "Login",
    "LoginError",
    "RequestRefusedError",
    "TooOldError",
    "UnreachableError",
    "ask_controller",
    "elect_first_replica",
    "login_of",
    "no_broker_at",
]
CLIENT_ID: Final = "kraft-bridge-admin"
PAUSE_S: Final = 0.1
GREETING_S: Final = 5.0
"""Timeout of ApiVersions and the login; after it another broker is tried."""
_RECEIVE_BYTES: Final = 1 << 16


BROKER_S: Final = 2 * GREETING_S
"""How long brokers are looked for: an address that does not answer is asked twice."""


class UnreachableError(Exception):
    """No broker answered in time; the text names each and its error."""


class TooOldError(Exception):
    """The broker supports no version that the request needs."""


class RequestRefusedError(Exception):
    """The answer to a request is an error; the text names both."""


class Connection:
    """One TCP connection to one broker: the outbound channel on a blocking socket.

    Args:
        host: of the broker.
        port: of the broker.
        timeout_s: for a connection, and for each answer.
        login: None: no login.
        client_id: of every request.
        tls: None: plain text.

    Raises:
        OSError: the broker cannot be reached, or TLS fails.
        LoginError: the broker refuses the login.
        TooOldError: the broker does not support a login.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        login: Login | None = None,
        client_id: str = CLIENT_ID,
        *,
        tls: TlsSettings | None = None,
    ) -> None:
        self._tls = tls
        config = ChannelConfig(
            client_id=client_id,
            connect_ms=_ms(min(timeout_s, GREETING_S)),
            reply_ms=_ms(timeout_s),
            retry_ms=None,
            greeting=Greeting(m.ApiVersionsRequest(), 0, login),
        )
        self._channel: OutboundChannel[None] = OutboundChannel(
            (host, port), config, itertools.count(1).__next__, itertools.count(1)
        )
        self._socket: socket.socket | None = None
        self._channel.dial(_now_ms())
        try:
            self._until(Opened)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it."""
        if self._socket is not None:
            self._socket.close()

    def offers(self, request: type) -> bool:
        """Whether both sides speak some version of a request."""
        try:
            self._channel.version_of(request)
        except NoCommonVersionError:
            return False
        return True

    def call(self, request: Any, *, lowest: int = 0) -> Any:
        """Send one request in the newest version both sides speak, and wait for the answer.

        Raises:
            OSError: the connection ended or timed out; whether the broker acted is not known.
            TooOldError: the newest common version is below ``lowest``, or there is none.
        """
        try:
            version = self._channel.version_of(type(request), lowest)
        except NoCommonVersionError as error:
            raise _too_old(error) from error
        self._channel.put(request, None, version)
        answered = self._until(Answered)
        assert isinstance(answered, Answered)
        return answered.message

    def _until(self, wanted: type) -> Turn[None]:
        """Run until the channel reports the wanted outcome.

        Raises:
            OSError, LoginError, TooOldError: as the callers say.
        """
        while True:
            events = [
                event
                for effect in self._channel.effects(_now_ms())
                if (event := self._perform(effect)) is not None
            ]
            for event in events or self._wait():
                for turn in self._channel.handle(event, _now_ms()):
                    if isinstance(turn, wanted):
                        return turn
                    _raise(turn)
            for turn in self._channel.tick(_now_ms()):
                _raise(turn)

    def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case Connect(conn, host, port):
                plain = _connect(host, port, self._left_s())
                self._socket = plain if self._tls is None else _secured(plain, host, self._tls)
                return Connected(conn)
            case Send(_, data):
                assert self._socket is not None
                self._socket.settimeout(self._left_s())
                self._socket.sendall(data)
            case _:
                self.close()
        return None

    def _wait(self) -> list[Event]:
        """Bytes from the socket, within the channel's deadline; empty after it."""
        conn = self._channel.conn
        assert self._socket is not None
        assert conn is not None, "the end of the connection is raised"
        self._socket.settimeout(self._left_s())
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return []
        return [Received(conn, data) if data else Closed(conn, "the broker closed the connection")]

    def _left_s(self) -> float:
        deadline_ms = self._channel.deadline_ms
        assert deadline_ms is not None, "something is waited for"
        # Never 0, which would make the socket non-blocking.
        return max(1, deadline_ms - _now_ms()) / 1_000


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)


def _connect(host: str, port: int, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout_s)
    except UnicodeError as error:
        # A broker may have registered any text as its host.
        raise OSError(f"{host!r} is not a host name: {error}") from error


def _secured(plain: socket.socket, host: str, tls: TlsSettings) -> socket.socket:
    try:
        return context(tls, datetime.now(UTC)).wrap_socket(plain, server_hostname=host)
    except TimeoutError:
        plain.close()
        raise
    except (OSError, ValueError) as error:  # ValueError: no name of a host
        plain.close()
        raise ConnectionError(explain(error)) from error


def _raise(turn: Turn[None]) -> None:
    """Raise the exception for the end of the connection."""
    match turn:
        case Broken(by=EndedBy.REFUSAL, error=LoginError() as error):
            raise error
        case Broken(by=EndedBy.REFUSAL, error=NoCommonVersionError() as error):
            raise _too_old(error) from error
        case Broken(by=EndedBy.TIME):
            raise TimeoutError("timed out")
        case Broken(by=EndedBy.PEER, why=why):
            raise ConnectionResetError(why)
        case Broken(why=why):
            raise ConnectionError(f"the server there is not a Kafka broker: {why}")
        case Unanswered() | Opened() | Answered():
            """The Broken outcome that follows has the reason."""


def _too_old(error: NoCommonVersionError) -> TooOldError:
    if error.offered_max < 0:
        return TooOldError(f"the server is not a Kafka broker: it does not support {error.name}")
    return TooOldError(f"the broker supports {error.name} up to version {error.offered_max} only")


def no_broker_at(addresses: Sequence[HostPort], patience_s: float) -> str:
    """Why none of the addresses is that of a broker; empty if one is.

    An address that answers and is no broker's is reported at once, a silent one within
    ``patience_s``. An admin client would try again and again, as a broker may be starting.
    """
    return why_unreachable(addresses) or none_of(addresses, _no_broker, patience_s)


def _no_broker(one: HostPort, patience_s: float) -> str:
    why = ""
    for _ in range(2):
        try:
            # Less than half, so that the reason is known before the address is given up.
            with closing(Connection(one.host, one.port, 0.45 * patience_s)) as connection:
                why = "" if connection.offers(m.MetadataRequest) else _NO_METADATA
        except TimeoutError:
            why = f"no answer within {patience_s:g} s; is it the address of a broker?"
        except ConnectionResetError:
            why = "it closes the connection when it is asked; is it the address of a broker?"
            time.sleep(PAUSE_S)
        except (ConnectionError, TooOldError) as error:
            return str(error)
        else:
            return why
    return why


_NO_METADATA: Final = (
    "this is no broker: it does not offer Metadata; a controller's port does not either"
)


def ask_controller(
    bootstrap: Sequence[tuple[str, int]],
    request: Any,
    *,
    lowest: int,
    not_controller: Callable[[Any], bool],
    timeout_s: float,
    login: Login | None = None,
) -> Any:
    """Send a request to the controller; on NOT_CONTROLLER find the controller and try again.

    Args:
        bootstrap: (host, port) of some brokers.
        request: what to send.
        lowest: lowest version that can carry the request.
        not_controller: whether an answer says NOT_CONTROLLER.
        timeout_s: for everything.
        login: to every broker.

    Raises:
        UnreachableError: no answer in that time.
        TooOldError, LoginError: see there.
    """
    deadline_s = time.monotonic() + timeout_s
    reasons: dict[tuple[str, int], str] = {}
    for host, port in itertools.cycle(bootstrap):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            break
        try:
            address = _controller(host, port, left_s, login)
            if address is None:
                reasons[host, port] = f"{host}:{port} knows no controller"
            else:
                with closing(Connection(*address, left_s, login)) as connection:
                    answer = connection.call(request, lowest=lowest)
                if not not_controller(answer):
                    return answer
                reasons[host, port] = f"{address[0]}:{address[1]} is no longer the controller"
        except TimeoutError as error:
            # The last attempt has little time: that it was too little explains nothing.
            reasons.setdefault((host, port), f"{host}:{port}: {error}")
        except OSError as error:
            reasons[host, port] = f"{host}:{port}: {error}"
        time.sleep(PAUSE_S)
    raise UnreachableError("; ".join(reasons.values()) or "no broker was asked")


def elect_first_replica(
    connection: Connection, topic: str, partition: int, replicas: Sequence[int]
) -> None:
    """Put the replicas of a partition into an order, and have the first one elected.

    Args:
        connection: to the active controller.
        topic: its name.
        partition: its number.
        replicas: those that it has, in the new order.

    Raises:
        RequestRefusedError: the controller refuses one of the two.
        OSError, TooOldError: as :meth:`Connection.call`.
    """
    order, election = m.AlterPartitionReassignmentsRequest, m.ElectLeadersRequest
    one = order.ReassignablePartition(partition_index=partition, replicas=replicas)
    asked = order(topics=[order.ReassignableTopic(name=topic, partitions=[one])])
    answer = connection.call(asked)
    parts = [part for each in answer.responses for part in each.partitions]
    _check("AlterPartitionReassignments", [answer, *parts])
    chosen = election.TopicPartitions(topic=topic, partitions=[partition])
    elected = connection.call(election(topic_partitions=[chosen]), lowest=1)
    results = [part for each in elected.replica_election_results for part in each.partition_result]
    already = [one for one in results if one.error_code == ErrorCode.ELECTION_NOT_NEEDED]
    _check("ElectLeaders", [elected, *(one for one in results if one not in already)])


def _check(api: str, answers: Sequence[Any]) -> None:
    for one in answers:
        if one.error_code:
            text = getattr(one, "error_message", None) or named(one.error_code)
            raise RequestRefusedError(f"{api}: {text}")


def _controller(
    host: str, port: int, timeout_s: float, login: Login | None
) -> tuple[str, int] | None:
    request = m.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with closing(Connection(host, port, timeout_s, login)) as connection:
        answer = connection.call(request, lowest=1)
    for broker in answer.brokers:
        if broker.node_id == answer.controller_id:
            return broker.host, broker.port
    return None
