"""The table of handlers by API: ``@handles`` registers one, ApiVersions lists them.

An API without a handler is not advertised, so no peer ever sends it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from emulator.controller import api
from emulator.controller.context import Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.result import Result
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.net.raft_requests import RAFT_REQUESTS
from emulator.seam import Slices, whole
from wire import messages as m
from wire import releases
from wire.errors import ErrorCode
from wire.schema import spec

# Features a controller of each release supports (KIP-584, KIP-778, KIP-853).
#
# Source: QuorumFeatures.defaultFeatureMap, Kafka 3.4-3.9; maxima read from the released jars.

KRAFT_VERSION: Final = "kraft.version"
METADATA_VERSION_MAX: Final[Mapping[str, int]] = MappingProxyType(
    {"3.4": 8, "3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21}
)
"""Newest production metadata.version per release."""


def supported_features(release: str) -> Mapping[str, tuple[int, int]]:
    """Feature name -> (lowest, highest level), by name.

    Raises:
        ValueError: not a release of the bridge, "3.4" ... "3.9".

    >>> dict(supported_features("3.4"))
    {'metadata.version': (1, 8)}
    """
    if release not in METADATA_VERSION_MAX:
        raise ValueError(f"{release!r} is no release from 3.4 to 3.9")
    features = {FEATURE_NAME: (1, METADATA_VERSION_MAX[release])}
    if release == "3.9":
        features[KRAFT_VERSION] = (0, 1)
    return MappingProxyType(dict(sorted(features.items())))


PROCESS: Final = "kraftbridge.process."
"""Begin of the name of a feature that names the process. Told only to software of this name:"""
SOFTWARE: Final = "kraft-bridge"


def process_name(incarnation_id: bytes) -> str:
    """How a process names itself to other voters: 16 hexadecimal digits.

    >>> process_name(bytes(15) + b"x")
    '0000000000000000'
    """
    return incarnation_id.hex()[:16]


def process_of(answer: m.ApiVersionsResponse) -> str:
    """The process that has answered; empty if it does not name itself."""
    names = (one.name for one in answer.supported_features)
    return next((name.removeprefix(PROCESS) for name in names if name.startswith(PROCESS)), "")


def tells_readiness(release: str) -> bool:
    """Whether ApiVersions of a controller of a release says that it has a migration configured."""
    return release != "3.4"


ENTRIES_MAX: Final = 50_000
"""Most entries of all arrays of one request: five times what one batch of the log holds."""
PARTITIONS_MAX: Final = 200_000
"""Most partitions that one request may name by their numbers alone: all of a large cluster."""
_UNBOUNDED: Final = frozenset({spec(m.AlterPartitionRequest).key})
"""A broker asks for the ISRs of all partitions that it leads at once."""

HandlerFunction = Callable[[Image, Any, Context], Result[Any] | Slices[Result[Any]]]
Refusal = Callable[[Any, ErrorCode, str | None], Any]
TOUCHED_MAX: Final = 50
"""Keys of one request; a larger one is appended by itself."""
Touches = Callable[[Image, Any], Collection[object] | None]
FunctionT = TypeVar("FunctionT", bound=HandlerFunction)


@dataclass(frozen=True, slots=True)
class Handler:
    """One API of the controller.

    ``function`` may be a generator: it yields after some hundred entries, and the image, and of
    one that may append the index and the log, stay as they are until it has returned, but for what
    it does not touch.
    ``refused(request, code, message)`` builds the answer that carries one error for everything; it
    may be a generator too.
    ``pre_migration``: served before the metadata copy is complete, and answered as soon as its
    records are committed, even inside an open metadata transaction. ``urgency``: at which bound on
    unwritten changes its records have to wait. ``read``: sees the committed image, appends nothing,
    is answered at once, active or not. ``needs``: the operation on the cluster that the caller
    needs, checked first; None leaves the check to the function.
    ``touches(image, request)``: keys of what the function looks at or changes and another call with
    this field may change. Calls without a common key are decided on one image, and appended as one
    batch (``queue/writes.py``). None, the field or its value: the call is appended by itself.
    """

    key: int
    request: type
    function: HandlerFunction
    refused: Refusal
    pre_migration: bool
    urgency: Urgency
    read: bool
    needs: Operation | None
    touches: Touches | None = None

    def result(self, image: Image, request: Any, ctx: Context) -> Result[Any]:
        """What the function makes of a request, all slices at once."""
        made = self.function(image, request, ctx)
        return whole(made) if isinstance(made, Generator) else made


_HANDLERS: dict[int, Handler] = {}


def handles(
    request: type,
    *,
    refused: Refusal,
    pre_migration: bool = False,
    urgency: Urgency = Urgency.ORDINARY,
    read: bool = False,
    needs: Operation | None = None,
    touches: Touches | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Register a pure function ``(image, request, context) -> Result`` as the handler of an API.

    It may do its work in slices; see Handler.

    Raises:
        ValueError: two handlers for one key.
    """
    key = spec(request).key
    assert key is not None, "a request has an API key"

    def register(function: FunctionT) -> FunctionT:
        if key in _HANDLERS:
            raise ValueError(f"two handlers for api key {key}")
        _HANDLERS[key] = Handler(
            key, request, function, refused, pre_migration, urgency, read, needs, touches
        )
        return function

    return register


@cache
def handlers() -> Mapping[int, Handler]:
    """Every handler by API key; imports ``emulator.controller.api`` whole on first use."""
    for module in pkgutil.iter_modules(api.__path__):
        importlib.import_module(f"{api.__name__}.{module.name}")
    return MappingProxyType(_HANDLERS)


@cache
def entries_max(release: str) -> Mapping[int, int]:
    """API key -> most structs, texts, ids and tagged fields in all arrays of one request.

    Args:
        release: Kafka release, "3.4" ... "3.9".
    """
    bounded = advertised(release).keys() - _UNBOUNDED
    return MappingProxyType(dict.fromkeys(sorted(bounded), ENTRIES_MAX))


@cache
def advertised(release: str) -> Mapping[int, tuple[int, int]]:
    """API key -> (lowest, highest version) on a controller listener.

    The ranges that a Kafka controller of that release lists, limited to the APIs answered here.

    Args:
        release: Kafka release, "3.4" ... "3.9".
    """
    answered = {*handlers(), *RAFT_REQUESTS}
    ranges = releases.controller_ranges(release)
    return MappingProxyType({key: ranges[key] for key in sorted(ranges) if key in answered})


def refused(key: int, request: object, code: ErrorCode, text: str | None) -> object:
    """The response of any API advertised here that carries one error for the whole request.

    Args:
        key: the API key.
        request: the decoded request.
        code: not NONE.
        text: error message for the caller; most APIs of the Raft machine have no field for it.
    """
    return whole(refusing(key, request, code, text))


def refusing(key: int, request: object, code: ErrorCode, text: str | None) -> Slices[object]:
    """As :func:`refused`, in slices."""
    raft = RAFT_REQUESTS.get(key)
    if raft is not None:
        return raft.refused(request, code)
    made = handlers()[key].refused(request, code, text)
    return (yield from made) if isinstance(made, Generator) else made
