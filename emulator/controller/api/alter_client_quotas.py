"""AlterClientQuotas (49): limits for users, client ids, pairs of both, or ips. KIP-546.

Kafka: ControllerApis.handleAlterClientQuotas, ClientQuotaControlManager (3.9); KIP-612 (ip).

Per entity, in order, INVALID_REQUEST for an entity given twice or with a key given twice, an empty
entity, an unknown type, a type given twice or an empty name, an ip together with another type or
that is not an address; then per key, for an unknown key or a limit that is not positive, too large,
or fractional where it must be whole; POLICY_VIOLATION if it would not fit into its znode
(``storable``). An entity changes as a whole or not at all. The valid entities of a request are
changed, all in one batch. Removing a limit that is not set is no error. Needs ALTER_CONFIGS on
CLUSTER.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Collection, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from emulator.controller.context import RATE, Context
from emulator.controller.registry import TOUCHED_MAX, handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.rules.storable import Room
from emulator.metadata.acls import Operation
from emulator.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    NONE,
    USER,
    Entity,
    EntityPart,
    record_of,
)
from emulator.metadata.image import Image
from emulator.seam import ENTRIES_PER_SLICE, Pace, Slices, listed
from wire import messages as m
from wire.errors import ErrorCode

Response = m.AlterClientQuotasResponse
Answer = m.AlterClientQuotasResponse.EntryData
Entry = m.AlterClientQuotasRequest.EntryData

FRACTION_MAX: Final = 1e-6
"""A limit this close to a whole number counts as whole (getErrorForIntegralQuotaValue)."""
INT_MAX, LONG_MAX = float(2**31 - 1), float(2**63)
WHOLE: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "producer_byte_rate": ("LONG", LONG_MAX),
        "consumer_byte_rate": ("LONG", LONG_MAX),
        "connection_creation_rate": ("INT", INT_MAX),
    }
)
"""Keys with integer values: the type's name in Kafka and its largest value."""
KEYS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
"""Quota keys of users and client ids."""
IP_KEYS: Final = frozenset({"connection_creation_rate"})
TYPES: Final = (CLIENT_ID, USER, IP)
_PLACES: Final = {name: place for place, name in enumerate(TYPES)}
_TYPE: Final = attrgetter("type")
_DENIED: Final = "Cluster authorization failed."


def refused(request: m.AlterClientQuotasRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every entity; of a lack of rights Kafka says no more."""
    denied = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    error = ApiError(code, _DENIED if denied else message)
    return Response(entries=[_answer(entry, error) for entry in request.entries])


def touches(_image: Image, request: m.AlterClientQuotasRequest) -> Collection[object] | None:
    """The entities. None: limits on mutations, which the next creation has to keep."""
    many = len(request.entries) > TOUCHED_MAX
    if many or sum([len(one.entity) + len(one.ops) for one in request.entries]) > TOUCHED_MAX:
        return None
    if any(op.key == RATE for entry in request.entries for op in entry.ops):
        return None
    return [
        _in_order(tuple([EntityPart.of(one.entity_type, one.entity_name) for one in entry.entity]))
        for entry in request.entries
    ]


@handles(
    m.AlterClientQuotasRequest,
    refused=refused,
    needs=Operation.ALTER_CONFIGS,
    touches=touches,
)
def alter_client_quotas(
    image: Image, request: m.AlterClientQuotasRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Alter each entity as a whole or not at all."""
    pace = Pace()
    entities: list[Entity] = []
    for entry in request.entries:
        named: list[EntityPart] = []
        for one in entry.entity:
            if pace.over():
                yield
            named.append(EntityPart.of(one.entity_type, one.entity_name))
        entities.append(tuple(named))
    times = Counter((yield from listed(_in_order, entities)))
    response = Response()
    records: list[Record] = []
    room = Room(image, ctx)
    for number, (parts, entry) in enumerate(zip(entities, request.entries, strict=True), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        entity = tuple(sorted(parts))
        if entity not in times:
            continue
        keys = [op.key for op in entry.ops]
        outcome: list[Record] | ApiError
        if times.pop(entity) > 1 or len(set(keys)) < len(keys):
            text = f"Ignoring duplicate entity {_shown(entity)}"
            outcome = ApiError(ErrorCode.INVALID_REQUEST, text)
        else:
            outcome = _alter(image, entity, entry)
        if not isinstance(outcome, ApiError):
            why = room.take(outcome)
            outcome = outcome if why is None else ApiError(ErrorCode.POLICY_VIOLATION, why)
        if isinstance(outcome, ApiError):
            response.entries.append(_answer(entry, outcome))
        else:
            response.entries.append(_answer(entry, ApiError(ErrorCode.NONE)))
            records.extend(outcome)
    return Result(response, () if request.validate_only else tuple(records))


def _in_order(parts: Entity) -> Entity:
    return tuple(sorted(parts))


def _alter(image: Image, entity: Entity, entry: Entry) -> list[Record] | ApiError:
    why = _entity_error(entity)
    if why is not None:
        return ApiError(ErrorCode.INVALID_REQUEST, why)
    current = image.client_quotas.get(entity) or NONE
    known = IP_KEYS if entity[0].type == IP else KEYS
    records: list[Record] = []
    for op in entry.ops:
        if op.remove:
            if op.key in current:
                records.append(record_of(entity, op.key, None))
            continue
        why = _limit_error(known, op.key, op.value)
        if why is not None:
            return ApiError(ErrorCode.INVALID_REQUEST, why)
        if current.get(op.key) != op.value:
            records.append(record_of(entity, op.key, op.value))
    return records


def _entity_error(entity: Entity) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    types = Counter(map(_TYPE, entity))
    for part in _in_kafkas_order(entity):
        if part.type not in TYPES:
            return f"Unhandled client quota entity type: {part.type}"
        if types[part.type] > 1:
            return f"Invalid client quota entity, duplicate entity entry {part.type}"
        if not part.is_default and not part.name:
            return f"Empty {part.type} not supported"
    if IP not in types:
        return None
    if len(types) > 1:
        return (
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    if entity[0].is_default or _is_address(entity[0].name):
        return None
    return f"{entity[0].name} is not a valid IP or resolvable host."


def _is_address(name: str) -> bool:
    """Whether it is an address without a zone; a zone is only valid on one machine."""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name


def _limit_error(known: frozenset[str], key: str, limit: float) -> str | None:
    if key not in known:
        return f"Invalid configuration key {key}"
    # Negated, so that NaN is refused as well.
    if not limit > 0:
        return f"Quota {key} must be greater than 0"
    if key not in WHOLE:
        return None
    type_name, largest = WHOLE[key]
    if limit > largest:
        article = "an" if type_name == "INT" else "a"
        return f"Proposed value for {key} is too large for {article} {type_name}."
    if math.fmod(limit, 1.0) > FRACTION_MAX:
        return f"{key} cannot be a fractional value."
    return None


def _in_kafkas_order(entity: Entity) -> list[EntityPart]:
    """In the order of Java's hash map; unknown types, whose position is not defined, last."""
    return sorted(entity, key=lambda part: _PLACES.get(part.type, len(_PLACES)))


def _shown(entity: Entity) -> str:
    """An entity as Kafka's ClientQuotaEntity prints itself."""
    parts = _in_kafkas_order(entity)
    listed = [f"{part.type}={'null' if part.is_default else part.name}" for part in parts]
    return f"ClientQuotaEntity(entries={{{', '.join(listed)}}})"


def _answer(entry: Entry, error: ApiError) -> Answer:
    part = m.AlterClientQuotasResponse.EntityData
    return Answer(
        error_code=error.code,
        error_message=error.message,
        entity=[part(entity_type=p.entity_type, entity_name=p.entity_name) for p in entry.entity],
    )
