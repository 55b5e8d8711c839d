"""ACLs and delegation tokens in ZooKeeper: Kafka 3.9.2's classes read ours, we read theirs."""

import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.metadata.acls import Acl, PatternType, Resource, ResourceType
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from emulator.znodes import acls, delegation_tokens
from emulator.znodes.tree import ZnodeError

Ask = Callable[[list[str]], list[str]]
LETTERS = "abz019 .-_*~+%:=,@üß漢\U0001f600<>\"'{}"


@pytest.fixture(scope="module")
def ask(compile_java: Callable[..., Path]) -> Ask:
    """Questions to Kafka's classes, one line each."""
    jars = kafka_jars("3.9.2")
    classes = compile_java([Path(__file__).with_name("AclOracle.java")], jars)

    def asked(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        printed = java([classes, *jars], "AclOracle", stdin=text)
        answers = printed.decode().splitlines()
        assert len(answers) == len(questions)
        return answers

    return asked


def coded(data: str | bytes | None) -> str:
    raw = data.encode() if isinstance(data, str) else data or b""
    return b64encode(raw).decode() or "="


def raw(answer: str) -> bytes:
    return b64decode("" if answer == "=" else answer)


def text(answer: str) -> str:
    return raw(answer).decode()


def word(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(1, 9)))


def resources(rng: random.Random) -> list[Resource]:
    return [
        Resource(int(kind), int(pattern), word(rng))
        for kind in ResourceType
        if kind >= ResourceType.TOPIC
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        for _ in range(4)
    ]


def asked_as(resource: Resource) -> str:
    return f"{resource.resource_type} {resource.pattern_type} {coded(resource.name)}"


def test_entries_are_kafkas_in_both_directions(ask: Ask) -> None:
    rng = random.Random(1)
    every = []
    for resource in resources(rng):
        count = rng.randint(1, 5)
        every.append(
            {
                Acl(
                    resource, f"User:{word(rng)}", word(rng), rng.randint(2, 14), rng.choice([2, 3])
                )
                for _ in range(count)
            }
        )
    mine = ask([f"entries-of {coded(acls.entries_data(entries))}" for entries in every])
    theirs = ask([" ".join(["data-of", *(_words(one) for one in entries)]) for entries in every])
    for entries, read, written in zip(every, mine, theirs, strict=True):
        resource = next(iter(entries)).resource
        found = [
            Acl(resource, text(principal), text(host), int(operation), int(permission))
            for principal, host, operation, permission in _fours(read.split(" "))
        ]
        assert set(found) == entries
        assert len(found) == len(entries)
        assert acls.parse(acls.path_of(resource), raw(written)) == entries


def _fours(words: list[str]) -> list[list[str]]:
    assert len(words) % 4 == 0
    return [words[at : at + 4] for at in range(0, len(words), 4)]


def _words(acl: Acl) -> str:
    return f"{coded(acl.principal)} {coded(acl.host)} {acl.operation} {acl.permission}"


def test_paths_and_notifications_are_kafkas(ask: Ask) -> None:
    some = resources(random.Random(2))
    paths = [text(one) for one in ask([f"path-of {asked_as(one)}" for one in some])]
    assert [acls.path_of(one) for one in some] == paths
    ours = [acls.notification(path).data for path in paths]
    read = ask([f"notified {coded(data)}" for data in ours])
    assert read == [asked_as(one) for one in some]
    theirs = [raw(one) for one in ask([f"notification {asked_as(one)}" for one in some])]
    literal = [one.pattern_type == PatternType.LITERAL for one in some]
    pairs = zip(ours, theirs, literal, strict=True)
    assert [mine == other for mine, other, plain in pairs if plain] == [True] * (len(some) // 2)


def test_what_kafka_cannot_read_we_cannot_either(ask: Ask) -> None:
    """We are stricter in one thing: what it reads as UNKNOWN would be copied and never matched."""
    entry = '{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}'
    whole = '{"version":1,"acls":[' + entry + "]}"
    cases = {
        whole: "both",
        whole.replace("Read", "READ").replace("Allow", "ALLOW"): "both",
        whole.replace("}", ',"more":1}'): "both",
        whole.replace("[" + entry, "[" + entry + "," + entry): "both",
        whole.replace("User:a", "User:"): "both",
        whole.replace("User:a", "a"): "none",
        whole.replace('"version":1', '"version":2'): "none",
        whole.replace(',"host":"*"', ""): "none",
        whole.replace("Read", "read"): "kafka",
        whole.replace("Read", "Sing"): "kafka",
        whole.replace("Allow", "Permit"): "kafka",
        whole.replace("Read", "Any"): "none",
    }
    answers = ask([f"entries-of {coded(data)}" for data in cases])
    for (data, readers), answer in zip(cases.items(), answers, strict=True):
        assert answer.startswith("!") == (readers == "none"), data
        try:
            found = acls.parse("/kafka-acl/Topic/t", data.encode())
        except ZnodeError:
            assert readers != "both", data
        else:
            assert readers == "both", data
            assert len(found) == 1


def test_tokens_are_kafkas_in_both_directions(ask: Ask) -> None:
    rng = random.Random(3)
    every = [
        DelegationToken(
            f"id{n}",
            f"User:{word(rng)}",
            f"User:{word(rng)}",
            tuple(f"User:{word(rng)}" for _ in range(n % 3)),
            rng.randint(0, 2**62),
            rng.randint(0, 2**62),
            rng.randint(0, 2**62),
        )
        for n in range(40)
    ]
    mine = ask([f"token-of {coded(delegation_tokens.token_data(one))}" for one in every])
    assert mine == [_token_words(one) for one in every]
    theirs = ask([f"token-data {_token_words(one)}" for one in every])
    for token, data in zip(every, theirs, strict=True):
        path = delegation_tokens.token_path(token.id)
        assert delegation_tokens.parse(path, raw(data)) == token


def _token_words(token: DelegationToken) -> str:
    texts = (token.id, token.owner, token.requester, "\n".join(token.renewers))
    times = (token.issue_timestamp, token.max_timestamp, token.expiration_timestamp)
    return " ".join([*map(coded, texts), *map(str, times)])
