"""The table of APIs that a broker answers itself: ``@serves`` registers one function."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from emulator.broker import api
from emulator.broker.cluster import KnownCluster
from emulator.broker.serving.in_parts import DIVIDED_ENTRIES_MAX, ENTRIES_MAX, Division
from emulator.broker.serving.producer_ids import ProducerIdSource
from emulator.config.broker import BrokerConfig
from emulator.controller import registry as controllers
from emulator.seam import Slices
from emulator.seam import whole as all_of
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader
from wire.releases import Ranges, broker_ranges, forwardable
from wire.schema import spec

ANONYMOUS: Final = "User:ANONYMOUS"
CONTROL_KEYS: Final = frozenset({4, 5, 6})
"""LeaderAndIsr, StopReplica, UpdateMetadata: a controller sends them in ZooKeeper mode."""
CONTROL_ENTRIES_MAX: Final = 4_000_000
"""Most entries of one of them. A controller names all partitions of a cluster in one request: of
200,000 partitions with three replicas, each alone in its topic, these are 1.6 million entries."""
_VOTERS: Final[Mapping[type, Callable[..., Any]]] = {
    m.AddRaftVoterRequest: m.AddRaftVoterResponse,
    m.RemoveRaftVoterRequest: m.RemoveRaftVoterResponse,
}
"""Forwarded, and not served by a controller here."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The context of one request: the client, and what the broker is.

    ``principal``: ``Type:name``; ``token_authenticated``: it logged in with a delegation token.
    ``address``: 4 or 16 raw bytes. ``advertised``: the broker's own versions, by API key.
    ``controller_versions``: what the controller offered when the channel for forwarding connected
    last; None before.
    """

    config: BrokerConfig
    header: RequestHeader
    advertised: Ranges
    now_ms: int
    rng: Random
    principal: str = ANONYMOUS
    token_authenticated: bool = False
    address: bytes = b"\x7f\x00\x00\x01"
    listener: str = "PLAINTEXT"
    controller_versions: Ranges | None = None
    producer_ids: ProducerIdSource | None = None

    @property
    def api_version(self) -> int:
        """API version of the request."""
        return self.header.api_version


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and topics that the controller is asked to create; the response does not wait.

    ``as_broker``: the broker asks for itself, not for its client. ``shared``: the response is one
    object for many requests, and is not changed any more.
    """

    response: Any
    create: tuple[m.CreateTopicsRequest.CreatableTopic, ...] = ()
    as_broker: bool = False
    shared: bool = False


def _as_it_is(answer: Any) -> Slices[Any]:
    yield from ()
    return answer


@dataclass(frozen=True, slots=True)
class PassOn:
    """Forward ``message`` under the client's header; ``join`` makes the client's response.

    The client's own message is forwarded as the bytes that came. ``join`` works in slices, if it
    does more than to return what it is given.
    """

    message: Any
    join: Callable[[Any], Slices[Any]] = field(default=_as_it_is)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The client reads no answer, and cannot get the error: its connection is closed."""


Served: TypeAlias = Any
"""A response message, an :class:`Answer`, a :class:`PassOn`, or :class:`NoAnswer`."""
Serve = Callable[[KnownCluster, Any, Asked], Served]
Refuse = Callable[[Any, ErrorCode, str | None], Any]
ServeT = TypeVar("ServeT", bound=Serve)


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One API. ``refused(request, code, text)`` builds the answer with one error for everything.

    ``division``: how long requests are answered in parts; None: they are not.
    """

    key: int
    request: type
    function: Serve
    refused: Refuse
    division: Division | None = None


_SERVED: dict[int, ServedApi] = {}


def serves(
    request: type, *, refused: Refuse, division: Division | None = None
) -> Callable[[ServeT], ServeT]:
    """Register a pure function ``(cluster, request, asked) -> Served`` for an API.

    Raises:
        ValueError: two functions for one key.
    """
    key = spec(request).key
    assert key is not None, "a request has an API key"

    def register(function: ServeT) -> ServeT:
        if key in _SERVED:
            raise ValueError(f"two functions for api key {key}")
        _SERVED[key] = ServedApi(key, request, function, refused, division)
        return function

    return register


def serves_refused(
    request: type, refused: Refuse, code: ErrorCode, text: str | None = None
) -> None:
    """Register an API whose every request is answered with the same error.

    Raises:
        ValueError: two functions for one key.
    """

    def serve(_cluster: KnownCluster, message: Any, _asked: Asked) -> Any:
        return refused(message, code, text)

    serves(request, refused=refused)(serve)


@cache
def served() -> Mapping[int, ServedApi]:
    """Every API by key; imports ``emulator.broker.api`` whole on first use."""
    for module in pkgutil.iter_modules(api.__path__):
        importlib.import_module(f"{api.__name__}.{module.name}")
    return MappingProxyType(_SERVED)


def entries_max(advertised: Ranges) -> dict[int, int]:
    """API key -> most entries in all arrays of one request."""
    more = {key: DIVIDED_ENTRIES_MAX for key, one in served().items() if one.division is not None}
    more |= dict.fromkeys(CONTROL_KEYS, CONTROL_ENTRIES_MAX)
    return {key: more.get(key, ENTRIES_MAX) for key in advertised}


@cache
def offered(release: str, mode: Literal["kraft", "zk"]) -> Ranges:
    """API key -> lowest and highest version on the listeners of a broker.

    Those of a Kafka broker of the release, limited to the APIs that are answered here.
    """
    ranges = broker_ranges(release, mode=mode)
    answered = {*served(), *forwardable(release)}
    if mode == "zk":
        answered |= CONTROL_KEYS
    return MappingProxyType({key: ranges[key] for key in ranges if key in answered})


def refused(key: int, request: Any, code: ErrorCode, text: str | None) -> Any:
    """The response of any API offered here that carries one error for the whole request.

    Args:
        key: the API key.
        request: the decoded request.
        code: not NONE.
        text: for the caller; not every API has a field for it.
    """
    return all_of(refusing(key, request, code, text))


def refusing(key: int, request: Any, code: ErrorCode, text: str | None) -> Slices[Any]:
    """As :func:`refused`, in slices."""
    one = served().get(key)
    if one is not None:
        return one.refused(request, code, text)
    voters = _VOTERS.get(type(request))
    if voters is not None:
        return voters(error_code=code, error_message=text)
    return (yield from controllers.refusing(key, request, code, text))
