"""What is asked of a server before the first case: what it offers, and what it is."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.case import Ask, Facts, Program, Violation, Where
from wire import messages as m
from wire.messages import ApiVersionsRequest
from wire.releases import RELEASES, broker_ranges, controller_ranges
from wire.schema import spec

_SECURITY_DISABLED: Final = 54
_BY_LEVEL: Final = {8: "3.4", 11: "3.5", 14: "3.6", 19: "3.7", 20: "3.8", 21: "3.9"}
"""The newest metadata.version that a release supports."""


def greeting() -> Any:
    """An ApiVersions request as any client sends it."""
    return ApiVersionsRequest(
        client_software_name="kraft-bridge", client_software_version="conformance"
    )


def learn(facts: Facts, where: Where) -> Program:
    """Ask one listener what it offers; fills ``facts``.

    Raises:
        Violation: it does not answer ApiVersions. What it answers wrongly else is left unknown.
    """
    answer = (yield Ask(greeting(), 0, at=where)).message
    facts.ranges[where] = {
        one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
    }
    told = yield from _readable(facts, where, greeting(), 3)
    if told is not None:
        for one in told.supported_features:
            facts.features[one.name] = (one.min_version, one.max_version)
        for one in told.finalized_features:
            facts.finalized[one.name] = one.max_version_level
    if facts.offers(where, m.MetadataRequest):
        request = m.MetadataRequest(topics=[], allow_auto_topic_creation=False)
        told = yield from _readable(facts, where, request, 4)
        if told is not None:
            facts.brokers = tuple(sorted(one.node_id for one in told.brokers))
            facts.cluster_id = told.cluster_id or facts.cluster_id
    elif where is Where.CONTROLLER:
        told = yield from _readable(facts, where, m.DescribeClusterRequest(endpoint_type=2), 1)
        if told is not None:
            facts.cluster_id = told.cluster_id or facts.cluster_id
    acls = m.DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    told = yield from _readable(facts, where, acls, 1)
    if told is not None:
        facts.authorizer = told.error_code != _SECURITY_DISABLED


def _readable(facts: Facts, where: Where, request: Any, lowest: int) -> Program:
    """The answer in the newest version that can be read; None: none can, or none is offered."""
    low, high = facts.offers(where, type(request)) or (0, -1)
    for version in range(high, max(low, lowest) - 1, -1):
        try:
            return (
                yield Ask(request, version, at=where, line=f"{type(request)} {version}")
            ).message
        except Violation:
            continue
    return None


def release_of(facts: Facts) -> str:
    """The release whose ranges the server lists; empty: none of those that are known.

    The newest metadata.version that it supports names it; else the list of a release that is equal.
    """
    newest = facts.features.get("metadata.version")
    if newest is not None:
        return _BY_LEVEL.get(newest[1], "")
    for where, ranges in facts.ranges.items():
        known = {
            Where.CONTROLLER: [controller_ranges],
            Where.BROKER: [
                broker_ranges,
                lambda one: broker_ranges(one, mode="zk"),
            ],
        }[where]
        for release in RELEASES:
            for of in known:
                expected = dict(of(release))
                hidden = {71, 72}
                got = {key: one for key, one in ranges.items() if key not in hidden}
                if got == {key: one for key, one in expected.items() if key not in hidden}:
                    return release
    return ""


def newer(facts: Facts, where: Where) -> list[int]:
    """Keys that the server lists and that no release up to 3.9 has: they are not judged."""
    known = {spec(one).key for one in m.__dict__.values() if _is_request(one)}
    return sorted(key for key in facts.ranges[where] if key not in known)


def _is_request(one: object) -> bool:
    return isinstance(one, type) and one.__name__.endswith("Request")
