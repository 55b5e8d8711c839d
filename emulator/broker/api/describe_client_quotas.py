"""DescribeClientQuotas (48): the quotas of the entities that match a filter. KIP-546.

Kafka: KafkaApis.handleDescribeClientQuotasRequest, ClientQuotasImage.describe (3.9).

For everything: CLUSTER_AUTHORIZATION_FAILED without DESCRIBE_CONFIGS on the cluster;
INVALID_REQUEST for an empty type, a type given twice, a name where none belongs or none where one
does, and ip together with another type; UNSUPPORTED_VERSION for an unknown type.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.result import ApiError, one_error
from emulator.controller.tables.index import QuotaIndex
from emulator.metadata.acls import Operation
from emulator.metadata.client_quotas import CLIENT_ID, IP, USER, Entity, EntityPart, Quotas
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeClientQuotasResponse
TYPES: Final = frozenset({USER, CLIENT_ID, IP})


class MatchType(IntEnum):
    """How a component of the filter selects (ClientQuotaFilterComponent)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, or the default."""


refused = one_error(Response, entries=None)


@serves(m.DescribeClientQuotasRequest, refused=refused)
def describe_client_quotas(
    cluster: KnownCluster, request: m.DescribeClientQuotasRequest, asked: Asked
) -> Slices[m.DescribeClientQuotasResponse]:
    """List every entity that the filter selects, with its limits."""
    caller = reading(cluster, request, asked)
    if not caller.may_on_cluster(Operation.DESCRIBE_CONFIGS):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    error = problem(request)
    if error is not None:
        return refused(request, error.code, error.message)
    quotas, wanted = cluster.image.client_quotas, request.components
    candidates: Iterable[Entity] = quotas
    if wanted:
        index = yield from QuotaIndex.of(quotas)
        candidates = index.with_all(map(_key, wanted))
    elif request.strict:
        candidates = ()  # no entity is without parts
    entries, pace = [], Pace()
    for entity in candidates:
        if pace.over():
            yield
        if _selected(entity, request):
            entries.append(_entry(entity, quotas[entity]))
    return Response(error_message=None, entries=entries)


def _key(wanted: m.DescribeClientQuotasRequest.ComponentData) -> EntityPart | str:
    kind = wanted.entity_type
    if wanted.match_type == MatchType.SPECIFIED:
        return kind
    return EntityPart.of(kind, wanted.match)


def _entry(entity: Entity, quotas: Quotas) -> m.DescribeClientQuotasResponse.EntryData:
    return Response.EntryData(
        entity=[
            Response.EntityData(entity_type=one.type, entity_name=one.name_or_none)
            for one in entity
        ],
        values=[Response.ValueData(key=key, value=limit) for key, limit in quotas.items()],
    )


def problem(request: m.DescribeClientQuotasRequest) -> ApiError | None:
    """Why the filter is invalid; None if it is valid."""
    types: set[str] = set()
    for one in request.components:
        kind = one.entity_type
        if not kind:
            return _invalid("Invalid empty entity type.")
        if kind in types:
            return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if one.match_type not in list(MatchType):
            return _invalid(f"Unknown match type {one.match_type}")
        match = MatchType(one.match_type)
        if (one.match is None) != (match is not MatchType.EXACT):
            which = "needs a name" if match is MatchType.EXACT else "takes no name"
            return _invalid(f"The match type {match.name} of {kind} {which}.")
        types.add(kind)
    if IP in types and len(types) > 1:
        return _invalid("A filter for ip cannot name user or client-id too.")
    return None


def _selected(entity: Entity, request: m.DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    parts = {one.type: one.name_or_none for one in entity}
    return all(
        one.entity_type in parts
        and (one.match_type == MatchType.SPECIFIED or parts[one.entity_type] == one.match)
        for one in request.components
    )


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
