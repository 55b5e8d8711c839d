"""CreateAcls, DescribeAcls, DeleteAcls: every match, every refusal (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import eventually
from bench.conformance.case import Ask, NotOffered, Program, Stage, case, code, only, same
from wire import messages as m

ANY, TOPIC, GROUP, CLUSTER, TXN = 1, 2, 3, 4, 5
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE, DESCRIBE = 2, 3, 4, 5, 8
DENY, ALLOW = 2, 3
_ASKS: Final = (m.CreateAclsRequest, m.DescribeAclsRequest, m.DeleteAclsRequest)
_AUTHORIZER: Final = "KIP-140, KIP-290; AclControlManager, StandardAuthorizerData"
Entry = tuple[int, str, int, str, str, int, int]
"""Resource type, name, pattern, principal, host, operation, permission."""


def creation(*entries: Entry) -> Any:
    """A CreateAcls request."""
    kind = m.CreateAclsRequest
    return kind(
        creations=[
            kind.AclCreation(
                resource_type=of,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for of, name, pattern, principal, host, operation, permission in entries
        ]
    )


_FILTER: Final[dict[str, Any]] = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def listed(message: Any) -> set[Entry]:
    """Entries of a DescribeAcls answer."""
    code("DescribeAcls", message.error_code, 0)
    return {
        (
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for one in message.resources
        for acl in one.acls
    }


def guarded(stage: Stage) -> None:
    """Go on only where an authorizer is.

    Raises:
        NotOffered: there is none.
    """
    if stage.facts.authorizer is False:
        raise NotOffered("the server has no authorizer")


def entries(stage: Stage) -> list[Entry]:
    """Entries of all kinds of resources and patterns."""
    name, user = stage.name(), f"User:{stage.name()}"
    return [
        (TOPIC, name, LITERAL, user, "*", READ, ALLOW),
        (TOPIC, name, LITERAL, user, "198.51.100.1", WRITE, DENY),
        (TOPIC, name[:-1], PREFIXED, user, "*", ALL, ALLOW),
        (TOPIC, "*", LITERAL, user, "*", DESCRIBE, ALLOW),
        (GROUP, name, LITERAL, user, "*", READ, ALLOW),
        (TXN, name, PREFIXED, user, "*", WRITE, ALLOW),
        (CLUSTER, "kafka-cluster", LITERAL, user, "*", CREATE, ALLOW),
    ]


def put(wanted: list[Entry]) -> Program:
    """Create entries, and wait until they are shown."""
    answer = (yield Ask(creation(*wanted), lowest=1)).message
    same("errors of CreateAcls", [one.error_code for one in answer.results], [0] * len(wanted))
    asked = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": wanted[0][3]})
    yield from eventually(
        "the created entries, shown", asked, lambda one: listed(one) == set(wanted), lowest=1
    )


def removed(*wanted: Entry) -> Program:
    """Delete just these entries."""
    kind = m.DeleteAclsRequest
    filters = [
        kind.DeleteAclsFilter(
            resource_type_filter=of,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        for of, name, pattern, principal, host, operation, permission in wanted
    ]
    if filters:
        answer = (yield Ask(kind(filters=filters), lowest=1)).message
        counts = [len(one.matching_acls) for one in answer.filter_results]
        same("entries that DeleteAcls found", counts, [1] * len(wanted))


@case(
    "without an authorizer each of the three requests gets SECURITY_DISABLED",
    sources="AclApis, ControllerApis",
    asks=_ASKS,
)
def disabled(stage: Stage) -> Program:
    if stage.facts.authorizer is not False:
        raise NotOffered("the server has an authorizer")
    answer = (yield Ask(m.DescribeAclsRequest(**_FILTER), lowest=1)).message
    code("DescribeAcls", answer.error_code, 54)
    same("entries", answer.resources, [])
    wanted = entries(stage)[:2]
    answer = (yield Ask(creation(*wanted), lowest=1)).message
    same("errors of CreateAcls", [one.error_code for one in answer.results], [54, 54])
    kind = m.DeleteAclsRequest
    one = kind.DeleteAclsFilter(**{**_FILTER, "principal_filter": wanted[0][3]})
    answer = (yield Ask(kind(filters=[one, one]), lowest=1)).message
    same("errors of DeleteAcls", [one.error_code for one in answer.filter_results], [54, 54])


@case(
    "CreateAcls makes the entries that DescribeAcls shows, each once",
    sources=_AUTHORIZER,
    asks=_ASKS,
)
def create(stage: Stage) -> Program:
    guarded(stage)
    wanted = entries(stage)
    yield from put(wanted)
    answer = (yield Ask(creation(wanted[0], wanted[0]), lowest=1)).message
    same("errors of entries that exist", [one.error_code for one in answer.results], [0, 0])
    asked = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": wanted[0][3]})
    message = (yield Ask(asked, lowest=1)).message
    count = sum(len(one.acls) for one in message.resources)
    same("entries afterwards", count, len(wanted))
    patterns = [
        (one.resource_type, one.resource_name, one.pattern_type) for one in message.resources
    ]
    same("resources: each once", len(set(patterns)), len(patterns))


@case(
    "DescribeAcls finds by type, name, pattern, principal, host, operation and permission",
    sources=_AUTHORIZER,
    asks=_ASKS,
)
def filters(stage: Stage) -> Program:
    guarded(stage)
    wanted = entries(stage)
    yield from put(wanted)
    name, user = wanted[0][1], wanted[0][3]
    questions: list[tuple[dict[str, Any], list[Entry]]] = [
        ({}, wanted),
        ({"resource_type_filter": TOPIC}, wanted[:4]),
        ({"resource_type_filter": CLUSTER}, wanted[6:]),
        ({"resource_name_filter": name, "pattern_type_filter": LITERAL}, [*wanted[:2], wanted[4]]),
        ({"resource_name_filter": name, "pattern_type_filter": PREFIXED}, [wanted[5]]),
        ({"resource_name_filter": name}, [*wanted[:2], *wanted[4:6]]),
        (
            {
                "resource_type_filter": TOPIC,
                "resource_name_filter": name,
                "pattern_type_filter": MATCH,
            },
            wanted[:4],
        ),
        (
            {
                "resource_type_filter": TXN,
                "resource_name_filter": f"{name}-x",
                "pattern_type_filter": MATCH,
            },
            [wanted[5]],
        ),
        ({"resource_name_filter": "*", "pattern_type_filter": LITERAL}, [wanted[3]]),
        ({"host_filter": "198.51.100.1"}, [wanted[1]]),
        ({"host_filter": "*"}, [wanted[0], *wanted[2:]]),
        ({"operation": READ}, [wanted[0], wanted[4]]),
        ({"operation": ALL}, [wanted[2]]),
        ({"permission_type": DENY}, [wanted[1]]),
        ({"pattern_type_filter": PREFIXED}, [wanted[2], wanted[5]]),
        ({"operation": WRITE, "permission_type": DENY}, [wanted[1]]),
    ]
    for more, expected in questions:
        asked = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": user, **more})
        found = listed((yield Ask(asked, lowest=1)).message)
        same(f"entries by {more}", sorted(found), sorted(expected))


@case(
    "CreateAcls: entries that cannot be are refused, each by itself",
    sources="AclControlManager.validateNewAcl; AclApis",
    asks=_ASKS,
)
def invalid(stage: Stage) -> Program:
    guarded(stage)
    name, user = stage.name(), f"User:{stage.name()}"
    good: Entry = (TOPIC, name, LITERAL, user, "*", READ, ALLOW)
    wrong: list[tuple[str, Entry]] = [
        ("a cluster of another name", (CLUSTER, name, LITERAL, user, "*", CREATE, ALLOW)),
        ("no name of the resource", (TOPIC, "", LITERAL, user, "*", READ, ALLOW)),
    ]
    for what, entry in wrong:
        answer = (yield Ask(creation(entry, good), lowest=1)).message
        same("results", len(answer.results), 2)
        code(f"CreateAcls with {what}", answer.results[0].error_code, 42)
        code("CreateAcls of the entry beside it", answer.results[1].error_code, 0)
    asked = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": user})
    yield from eventually(
        "the good entry alone", asked, lambda one: listed(one) == {good}, lowest=1
    )


@case(
    "CreateAcls: what only a filter may say is refused, and nothing is made",
    sources="AclControlManager.validateNewAcl; AclBinding",
    asks=_ASKS,
)
def filters_as_entries(stage: Stage) -> Program:
    guarded(stage)
    name, user = stage.name(), f"User:{stage.name()}"
    wrong: list[tuple[str, Entry]] = [
        ("pattern MATCH", (TOPIC, name, MATCH, user, "*", READ, ALLOW)),
        ("pattern ANY", (TOPIC, name, ANY, user, "*", READ, ALLOW)),
        ("operation ANY", (TOPIC, name, LITERAL, user, "*", ANY, ALLOW)),
        ("permission ANY", (TOPIC, name, LITERAL, user, "*", READ, ANY)),
        ("resource type ANY", (ANY, name, LITERAL, user, "*", READ, ALLOW)),
    ]
    for what, entry in wrong:
        # Kafka up to 3.9 has no better word for it than that it failed.
        answer = (yield Ask(creation(entry), lowest=1)).message
        code(f"CreateAcls with {what}", only("results", answer.results).error_code, 42, -1)
    asked = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": user})
    same("entries", listed((yield Ask(asked, lowest=1)).message), set())


@case("DeleteAcls removes what its filters match, and tells which", sources=_AUTHORIZER, asks=_ASKS)
def delete(stage: Stage) -> Program:
    guarded(stage)
    wanted = entries(stage)
    yield from put(wanted)
    name, user = wanted[0][1], wanted[0][3]
    kind = m.DeleteAclsRequest
    chosen: list[dict[str, Any]] = [
        {"resource_type_filter": GROUP, "resource_name_filter": name},
        {
            "resource_type_filter": TOPIC,
            "resource_name_filter": name,
            "pattern_type_filter": LITERAL,
        },
        {"resource_name_filter": f"{name}-none"},
    ]
    asked = kind(
        filters=[
            kind.DeleteAclsFilter(**{**_FILTER, "principal_filter": user, **one}) for one in chosen
        ]
    )
    answer = (yield Ask(asked, lowest=1)).message
    same("results", len(answer.filter_results), 3)
    found = []
    for result in answer.filter_results:
        code("DeleteAcls", result.error_code, 0)
        for one in result.matching_acls:
            code("of a match", one.error_code, 0)
        found.append(
            {
                (
                    one.resource_type,
                    one.resource_name,
                    one.pattern_type,
                    one.principal,
                    one.host,
                    one.operation,
                    one.permission_type,
                )
                for one in result.matching_acls
            }
        )
    same("matches", found, [{wanted[4]}, set(wanted[:2]), set()])
    counts = [len(one.matching_acls) for one in answer.filter_results]
    same("matches: each once", counts, [1, 2, 0])
    left = {*wanted[2:4], *wanted[5:]}
    shown = m.DescribeAclsRequest(**{**_FILTER, "principal_filter": user})
    yield from eventually(
        "the entries that are left", shown, lambda one: listed(one) == left, lowest=1
    )
    rest = kind.DeleteAclsFilter(**{**_FILTER, "principal_filter": user})
    answer = (yield Ask(kind(filters=[rest]), lowest=1)).message
    result = only("results", answer.filter_results)
    same("matches of the rest", len(result.matching_acls), len(left))
    yield from eventually("no entry", shown, lambda one: not listed(one), lowest=1)


@case(
    "DeleteAcls: every field of a filter counts, and MATCH finds what holds for a name",
    sources=_AUTHORIZER,
    asks=_ASKS,
)
def delete_by_field(stage: Stage) -> Program:
    guarded(stage)
    wanted = entries(stage)
    yield from put(wanted)
    name, user = wanted[0][1], wanted[0][3]
    kind = m.DeleteAclsRequest
    group: dict[str, Any] = {"resource_type_filter": GROUP}
    by_match: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": MATCH,
    }
    chosen: list[dict[str, Any]] = [
        {**group, "operation": CREATE},
        {**group, "host_filter": "203.0.113.1"},
        {**group, "permission_type": DENY},
        {**group, "pattern_type_filter": PREFIXED},
        by_match,
    ]
    every = {**_FILTER, "principal_filter": user}
    filters_ = [kind.DeleteAclsFilter(**{**every, **one}) for one in chosen]
    answer = (yield Ask(kind(filters=filters_), lowest=1)).message
    counts = [len(one.matching_acls) for one in answer.filter_results]
    same("matches: four filters that differ in one field, one by MATCH", counts, [0, 0, 0, 0, 4])
    shown = m.DescribeAclsRequest(**every)
    left = set(wanted[4:])
    yield from eventually(
        "the entries that are left", shown, lambda one: listed(one) == left, lowest=1
    )
    answer = (yield Ask(kind(filters=[kind.DeleteAclsFilter(**every)]), lowest=1)).message
    same("matches of the rest", len(only("results", answer.filter_results).matching_acls), 3)
