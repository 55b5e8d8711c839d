"""ACLs and who may do what, beside Kafka's own StandardAuthorizer and AclControlManager."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.metadata.acls import Operation, ResourceType
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.unit.controller.world import World, call
from wire import messages as m
from wire.codec import decode, encode

HELPER = Path(__file__).parent / "AuthorizerOracle.java"
SCENARIOS = 150
NEWEST = 3
NAMES = ("*", "a", "ab", "aba", "abab", "abac", "ac", "b", "é", "\U0001f600", "\uffee", "a*")
PRINCIPALS = ("User:a", "User:*", "User:b", "Group:a", "User:", "User:a:b", ":a")
HOSTS = ("*", "*", "127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1", "::1", "fe80:0:0:0:1:0:0:ff")
ADDRESSES = (
    *("7f000001", "0a000007", "00000000000000000000000000000001"),
    *("00000000000000000000ffff0a000007", "fe8000000000000000010000000000ff"),
)
KINDS = (2, 2, 2, 3, 4, 5, 6, 7)
OPERATIONS = (2, 3, 4, 7, 8, 8, 9, 10, 11, 12, 13, 14)

Oracle = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    ask = partial(java, [*jars, compile_java([HELPER], jars)])

    def answers(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        name = "org.apache.kafka.controller.AuthorizerOracle"
        printed = ask(name, stdin=text).decode().splitlines()
        assert len(printed) == len(questions)
        return printed

    return answers


def creations(rng: random.Random) -> m.CreateAclsRequest:
    """Only what Kafka's connection survives, and whose answers come from these two classes."""
    request = m.CreateAclsRequest
    return request(
        creations=[
            request.AclCreation(
                resource_type=rng.choice(KINDS),
                resource_pattern_type=rng.choice((3, 3, 4, 4, 4)),
                resource_name=rng.choice(NAMES),
                principal=rng.choice(PRINCIPALS),
                host=rng.choice(HOSTS),
                operation=rng.choice(OPERATIONS),
                permission_type=rng.choice((2, 3, 3, 3)),
            )
            for _ in range(rng.randint(1, 12))
        ]
    )


def wanted(rng: random.Random) -> dict[str, Any]:
    few = rng.random() < 0.5
    return {
        "resource_type_filter": rng.choice((1, 2, 2, 3)),
        "resource_name_filter": rng.choice((None, *NAMES)),
        "pattern_type_filter": rng.choice((1, 2, 2, 3, 4)),
        "principal_filter": None if few else rng.choice(PRINCIPALS),
        "host_filter": None if few else rng.choice(HOSTS),
        "operation": 1 if few else rng.choice(OPERATIONS),
        "permission_type": rng.choice((1, 1, 2, 3)),
    }


def unordered(response: Any) -> Any:
    """As it comes off the wire; Kafka keeps entries in hash maps."""
    response = decode(type(response), NEWEST, encode(response, NEWEST))
    for one in getattr(response, "filter_results", ()):
        one.matching_acls.sort(key=repr)
    for one in getattr(response, "resources", ()):
        one.acls.sort(key=repr)
    getattr(response, "resources", []).sort(key=repr)
    return response


def life(rng: random.Random) -> Iterator[tuple[str, Any]]:
    """Changes and questions; a line for the oracle, and what ours says."""
    authorizer = StandardAuthorizer(frozenset({"User:ANONYMOUS", "User:root"}), rng.random() < 0.3)
    everyone = str(authorizer.allow_everyone_if_no_acl_found).lower()
    world = World(authorizer=authorizer)
    yield f"new {everyone} User:ANONYMOUS;User:root", "new"
    for _ in range(rng.randint(2, 5)):
        made = creations(rng)
        made.creations = [
            one
            for one in made.creations
            # The answers of AclApis, one layer above these classes.
            if one.resource_type != ResourceType.CLUSTER or one.resource_name == "kafka-cluster"
        ]
        yield f"create {encode(made, NEWEST).hex()}", unordered(world.ask(made))
        if rng.random() < 0.4:
            kind = m.DeleteAclsRequest.DeleteAclsFilter
            deleted = m.DeleteAclsRequest(
                filters=[kind(**wanted(rng)) for _ in range(rng.randint(1, 3))]
            )
            yield f"delete {encode(deleted, NEWEST).hex()}", unordered(world.ask(deleted))
        described = m.DescribeAclsRequest(**wanted(rng))
        yield f"describe {encode(described, NEWEST).hex()}", unordered(world.ask(described))
        for _ in range(20):
            operation, kind_ = rng.choice(OPERATIONS[1:]), rng.choice((2, 2, 2, 3, 5, 7))
            name, address = rng.choice(NAMES), rng.choice(ADDRESSES)
            principal = rng.choice((*PRINCIPALS, "User:root"))
            asked = call(described, principal=principal, client_address=bytes.fromhex(address))
            ours = authorizer.allows(
                world.tip, asked, Operation(operation), ResourceType(kind_), name
            )
            line = f"may {operation} {kind_} {name.encode().hex()} {principal} {address}"
            yield line, str(ours).lower()


def test_acls_are_kept_and_decide_as_in_kafka(oracle: Oracle) -> None:
    """Answers with their texts, what filters find, and every decision."""
    asked = [one for seed in range(SCENARIOS) for one in life(random.Random(seed))]
    said = oracle([line for line, _ in asked])
    seen: Counter[str] = Counter()
    for (line, ours), theirs in zip(asked, said, strict=True):
        what = line.split(" ")[0]
        if isinstance(ours, str):
            assert ours == theirs, line
            seen[f"{what} {theirs}"] += 1
        else:
            found = unordered(decode(type(ours), NEWEST, bytes.fromhex(theirs)))
            assert ours == found, line
            seen[what] += 1
            seen[f"{what} found"] += "host=" in repr(found)
    for reached in ("may true", "may false", "describe found", "delete found"):
        assert seen[reached] > SCENARIOS / 3, seen
