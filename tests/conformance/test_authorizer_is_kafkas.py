"""Decisions and filters against Kafka's own StandardAuthorizer, thousands in one Java process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from bench.cluster.jars import kafka_jars
from bench.cluster.java_tools import java
from emulator.controller.acl_filter import AclFilter
from emulator.controller.authorizer import StandardAuthorizer
from emulator.metadata.acls import Acl, Operation, Resource, ResourceType
from tests.unit.controller.test_authorizer import image_of
from tests.unit.controller.world import call
from wire import messages as m

HELPER = Path(__file__).parent / "AuthorizerOracle.java"
NAMES = ("*", "a", "ab", "aba", "abab", "ac", "b", "~", "é", "kafka-cluster")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a", "User:CN=a,O=b")
ADDRESSES = ("7f000001", "0a000007", "00" * 15 + "01", "00" * 10 + "ffff0a000007")
HOSTS = ("*", "*", "127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1", "::1")
CASES, QUESTIONS = 400, 12


def entry(rng: random.Random) -> Acl:
    """Dense enough that most of them bear on most questions."""
    resource = Resource(rng.choice((2, 2, 3, 4)), rng.choice((3, 3, 4)), rng.choice(NAMES))
    return Acl(
        resource,
        rng.choice(PRINCIPALS),
        rng.choice(HOSTS),
        rng.choice((2, 3, 4, 6, 7, 8, 10, 11)),
        rng.choice((2, 3, 3)),
    )


def fields(acl: Acl) -> tuple[object, ...]:
    return (*acl.resource, acl.principal, acl.host, acl.operation, acl.permission)


def words(*parts: object) -> str:
    return "\t".join("-" if part is None else str(part) for part in parts)


def test_every_decision_and_every_filter_is_kafkas(compile_java: Callable[..., Path]) -> None:
    rng = random.Random(20)
    lines: list[str] = []
    ours: list[str] = []
    for _ in range(CASES):
        acls = list({entry(rng) for _ in range(rng.randrange(16))})
        image = image_of(acls)
        everyone = rng.random() < 0.5
        authorizer = StandardAuthorizer(frozenset({"User:b"}), everyone)
        lines.append(words("new", "User:b", str(everyone).lower()))
        lines += [words("acl", *fields(acl)) for acl in acls]
        for _ in range(QUESTIONS):
            who, address = rng.choice(PRINCIPALS), rng.choice(ADDRESSES)
            operation, kind = rng.randrange(2, 12), rng.choice((2, 2, 3, 4))
            name = rng.choice((*NAMES, "ababab", "zz"))
            lines.append(words("ask", who, address, operation, kind, name))
            asked = call(
                m.DeleteTopicsRequest(), principal=who, client_address=bytes.fromhex(address)
            )
            allowed = authorizer.allows(
                image, asked, Operation(operation), ResourceType(kind), name
            )
            ours.append("ALLOWED" if allowed else "DENIED")
        for _ in range(QUESTIONS):
            kind, pattern = rng.choice((1, 2, 3)), rng.choice((1, 2, 3, 4))
            wanted = (
                rng.choice((None, *NAMES, "ababab")),
                rng.choice((None, None, *PRINCIPALS)),
                rng.choice((None, None, "*", "127.0.0.1")),
                rng.choice((1, 1, 2, 3)),
                rng.choice((1, 1, 2, 3)),
            )
            lines.append(words("find", kind, pattern, *wanted))
            found = AclFilter(kind, wanted[0], pattern, *wanted[1:]).find(image)
            ours.append(";".join(sorted(" ".join(map(str, fields(acl))) for _, acl in found)))
    jars = kafka_jars("3.9.2")
    classes = compile_java([HELPER], jars)
    printed = java([*jars, classes], "AuthorizerOracle", stdin="\n".join(lines).encode())
    assert ours == printed.decode().splitlines()
    assert {"ALLOWED", "DENIED", ""} <= set(ours)
