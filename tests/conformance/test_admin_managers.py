"""Quotas, SCRAM users, throttling and DescribeConfigs, beside the classes of Kafka's controller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.config.limits import MutationQuotaSettings
from emulator.controller.context import RATE, MutationQuotas
from emulator.metadata.client_quotas import CLIENT_ID, USER, alter, entity, record_of
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.metadata.replay import replay
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.unit.controller.world import handle, image_of
from wire import messages as m
from wire import records as r
from wire.codec import decode, encode
from wire.record_serde import decode_record
from wire.schema import spec

HELPERS = [Path(__file__).parent / name for name in ("AdminOracle.java", "ValueOracle.java")]
SCENARIOS = 150

Oracle = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    ask = partial(java, [*jars, compile_java(HELPERS, jars)])

    def answers(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        printed = ask("org.apache.kafka.controller.AdminOracle", stdin=text).decode().splitlines()
        assert len(printed) == len(questions)
        return printed

    return answers


Question = tuple[str, Any]
"""A line for the oracle, and what we say to it in the same form as :func:`understood`."""


def understood(line: str, response: type, version: int) -> Any:
    """The oracle's answer without order: Kafka keeps results and keys in hash maps."""
    answer, *records = line.split(" ")
    return unordered(
        decode(response, version, bytes.fromhex(answer)),
        [decode_record(bytes.fromhex(one))[0] for one in records],
    )


def unordered(response: Any, records: Any) -> Any:
    """Both as they come off the wire."""
    version = spec(type(response)).max_version
    response = decode(type(response), version, encode(response, version))
    results = [*getattr(response, "entries", ()), *getattr(response, "results", ())]
    for one in (*results, *records):
        if isinstance(one, r.ClientQuotaRecord | m.AlterClientQuotasResponse.EntryData):
            one.entity.sort(key=lambda part: part.entity_type)
    return sorted(map(repr, results)), sorted(map(repr, records))


# ------------------------------------------------------------------------------------------ quotas
NAMES = (None, "", "a", "b", "a b/c%", "10.0.0.1", "::1", "300.1.1.1", "é")
KEYS = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    *("controller_mutation_rate", "connection_creation_rate", "nonsense"),
)
LIMITS = (
    *(-1.0, 0.0, 0.5, 1.0, 1.0000001, 1.1, 1024.0, 2.0**31 - 1, 2.0**31, 2.0**53),
    *(2.0**63, 2.0**63 * 1.5, 1e300, float("inf")),
)
TYPES = (
    *((USER,), (CLIENT_ID,), (USER, CLIENT_ID), ("ip",)),
    *((), ("ip", USER), ("nonsense",), (CLIENT_ID, "ip"), (USER, "nonsense")),
)


def quota_request(rng: random.Random) -> m.AlterClientQuotasRequest:
    """Entities differ, and so do the keys of each: what is different on purpose is left out."""
    request = m.AlterClientQuotasRequest
    entries = {}
    for _ in range(rng.randint(1, 4)):
        usual = rng.random() < 0.8
        types = rng.choice(TYPES[:4] if usual else TYPES)
        plain = usual or "nonsense" in types
        named = [(one, rng.choice(NAMES[2:5] if plain else NAMES)) for one in types]
        if types == ("ip",) and usual:
            named = [("ip", rng.choice((None, "10.0.0.1", "::1")))]
        keys = [rng.choice(KEYS)]  # of two bad ones, Kafka tells of either
        if usual:
            keys = ["connection_creation_rate"] if types == ("ip",) else rng.sample(KEYS[:4], 2)
        entries[tuple(sorted(named, key=str))] = request.EntryData(
            entity=[request.EntityData(entity_type=one, entity_name=name) for one, name in named],
            ops=[
                request.OpData(
                    key=key,
                    value=rng.choice(LIMITS[3:4] + LIMITS[6:8] if usual else LIMITS),
                    remove=rng.random() < 0.3,
                )
                for key in keys
            ],
        )
    return request(entries=list(entries.values()), validate_only=rng.random() < 0.2)


def quota_questions(rng: random.Random) -> Iterator[Question]:
    image = image_of()
    for _ in range(6):
        request = quota_request(rng)
        result = handle(image, request)
        image = after(image, result.records)
        yield f"quotas {encode(request, 1).hex()}", unordered(result.response, result.records)


def after(image: Image, records: Any) -> Image:
    for record in records:
        image = replay(image, record, image.offset + 1, 1)
    return image


def test_quotas_are_altered_as_by_kafka(oracle: Oracle) -> None:
    """Answers with their texts, and the records; state carries over from request to request."""
    asked: list[Question] = []
    for seed in range(SCENARIOS):
        asked += [("new", None), *quota_questions(random.Random(seed))]
    said = oracle([question for question, _ in asked])
    texts: set[str] = set()
    written = 0
    for (question, ours), line in zip(asked, said, strict=True):
        if question != "new":
            theirs = understood(line, m.AlterClientQuotasResponse, 1)
            assert ours == theirs
            texts.update(one for one in theirs[0] if "error_code" in one)
            written += len(theirs[1])
    assert written > 500
    for text in ("Unhandled", "Invalid empty", "Empty", "combination", "not a valid IP", "greater"):
        assert any(text in one for one in texts), text
    for text in ("too large for a LONG", "too large for an INT", "fractional", "configuration key"):
        assert any(text in one for one in texts), text


def test_what_kafka_does_with_an_entity_given_twice(oracle: Oracle) -> None:
    """It says that the second is ignored, under the only name there is, and keeps the first.

    Ours changes nothing of what it answers an error for.
    """
    request = m.AlterClientQuotasRequest
    user = [request.EntityData(entity_type=USER, entity_name="a")]
    entries = [
        request.EntryData(entity=user, ops=[request.OpData(key=KEYS[0], value=value)])
        for value in (1.0, 2.0)
    ]
    twice = request(entries=entries)
    (line,) = oracle([f"quotas {encode(twice, 1).hex()}"])
    answers, records = understood(line, m.AlterClientQuotasResponse, 1)
    result = handle(image_of(), twice)
    assert unordered(result.response, result.records) == (answers, [])
    assert len(answers) == 1
    assert "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})" in answers[0]
    assert len(records) == 1


# ------------------------------------------------------------------------------------------- SCRAM
def scram_request(rng: random.Random) -> m.AlterUserScramCredentialsRequest:
    request = m.AlterUserScramCredentialsRequest
    users = ("a", "b", "c", "é", "")
    return request(
        deletions=[
            request.ScramCredentialDeletion(
                name=rng.choice(users), mechanism=rng.choice((1, 1, 2, 0, 3))
            )
            for _ in range(rng.randint(0, 2))
        ],
        upsertions=[
            request.ScramCredentialUpsertion(
                name=rng.choice(users),
                mechanism=rng.choice((1, 1, 2, 2, -1, 9)),
                iterations=rng.choice((4095, 4096, 8192, 16384, 16385, -1)),
                salt=rng.randbytes(rng.randint(0, 9)),
                salted_password=rng.randbytes(rng.choice((0, 1, 20, 32, 64, 200))),
            )
            for _ in range(rng.randint(0, 3))
        ],
    )


def scram_questions(rng: random.Random, level: int) -> Iterator[Question]:
    image = image_of(mv=level)
    for _ in range(8):
        request = scram_request(rng)
        result = handle(image, request)
        image = after(image, result.records)
        line = f"scram {encode(request, 0).hex()} {level}"
        yield line, unordered(result.response, result.records)


EMPTY_PASSWORD = (
    "error_code=93, error_message='Empty salted password'",
    "error_code=-1, error_message=None",
)
"""Ours and Kafka's: Java's HMAC throws (docs/divergence.md)."""


def test_scram_users_are_altered_as_by_kafka(oracle: Oracle) -> None:
    """Answers with their texts, and the records with the keys made of the salted password."""
    asked: list[Question] = []
    for seed in range(SCENARIOS):
        level = 10 if seed % 20 == 0 else 21
        asked += [("new", None), *scram_questions(random.Random(seed), level)]
    said = oracle([question for question, _ in asked])
    codes: set[int] = set()
    for (question, ours), line in zip(asked, said, strict=True):
        if question != "new":
            results, records = ours
            as_kafkas = sorted(one.replace(*EMPTY_PASSWORD) for one in results)
            theirs = understood(line, m.AlterUserScramCredentialsResponse, 0)
            assert (as_kafkas, records) == theirs
            response = line.split(" ")[0]
            found = decode(m.AlterUserScramCredentialsResponse, 0, bytes.fromhex(response))
            codes |= {one.error_code for one in found.results}
    assert codes == {-1, 0, 33, 35, 91, 92, 93}


# --------------------------------------------------------------------------------------- mutations
def mutation_questions(rng: random.Random) -> Iterator[Question]:
    known: Any = PMap()
    buckets = MutationQuotas(MutationQuotaSettings(11, 1))
    now_ms = 10**12
    for _ in range(40):
        now_ms += rng.choice((0, 1, 500, 3_000, 20_000, 100_000))
        if rng.random() < 0.2:
            user, client = rng.choice("-+ab"), rng.choice("-+cd")
            if user == client == "-":
                continue
            rate = rng.choice((None, 0.5, 1.0, 3.0, 20.0))
            parts = [
                (kind, None if name == "+" else name)
                for kind, name in ((USER, user), (CLIENT_ID, client))
                if name != "-"
            ]
            known = alter(known, record_of(entity(parts), RATE, rate))
            yield f"limit {user} {client} {'-' if rate is None else rate}", "ok"
            continue
        user, client, strict = rng.choice("ab"), rng.choice("cde"), rng.random() < 0.6
        count = rng.choice((0, 1, 5, 30))
        quota = buckets.of(known, f"User:{user}", client, now_ms)
        refused = quota.take(count, strict=strict) is not None
        if quota.spent is not None:
            buckets.performed(quota.spent)
        line = f"take {user} {client} {str(strict).lower()} {count} {now_ms}"
        yield line, f"{str(refused).lower()} {quota.throttle_ms}"


def test_mutations_are_throttled_as_by_kafka(oracle: Oracle) -> None:
    """Whoever shares a bucket, whatever limits come and go meanwhile."""
    asked: list[Question] = []
    for seed in range(SCENARIOS):
        asked += [("new", "new"), *mutation_questions(random.Random(seed))]
    said = oracle([question for question, _ in asked])
    assert said == [ours for _, ours in asked]
    assert sum(line.startswith("true ") for line in said) > 50
    assert sum(line.startswith("false ") and not line.endswith(" 0") for line in said) > 50


# --------------------------------------------------------------------------------- DescribeConfigs
PROPERTIES = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "/data/a,/data/b",
    "ssl.keystore.password": "hidden",
    "kraftbridge.release": "3.9",
    "log.retention.minutes": "7",
    "log.cleaner.min.cleanable.ratio": "0.25",
}
DYNAMIC = [
    (4, "", "message.max.bytes", "100000"),
    (4, "", "log.retention.ms", "5000"),
    (4, "3000", "message.max.bytes", "200000"),
    (4, "", "background.threads", "4"),
    (4, "", "follower.replication.throttled.rate", "99"),
    (2, "t", "cleanup.policy", "compact,delete"),
    (2, "t", "max.message.bytes", "7"),
    (16, "s", "interval.ms", "100"),
    (16, "s", "metrics", "a,b"),
]
HASHED = "listener.security.protocol.map"
"""Its default is printed in the order of a hash map."""


def described(response: m.DescribeConfigsResponse) -> Any:
    (result,) = response.results
    entries = sorted(result.configs, key=lambda one: one.name)
    for one in entries:
        one.documentation = None
        every: list[Any] = [one, *one.synonyms]
        for told in every:
            if told.name == HASHED and told.value is not None:
                told.value = ",".join(sorted(told.value.split(",")))
    return {f"{result.error_code} {result.error_message}", *map(repr, entries)}


def test_configs_are_described_as_by_kafka(oracle: Oracle) -> None:
    """Every property, source, type and synonym that ConfigHelper tells of, but no description."""
    image = image_of(
        r.TopicRecord(name="t", topic_id=bytes(7) + b"\x05" + bytes(7) + b"\x06"),
        *(
            r.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
            for kind, name, key, value in DYNAMIC
        ),
    )
    questions = [f"property {key}={value}" for key, value in PROPERTIES.items()]
    questions += [
        f"config {kind} {name or '-'} {key}={value}" for kind, name, key, value in DYNAMIC
    ]
    cases = [
        (synonyms, kind, name)
        for kind, names in {
            2: ("t", "gone", "a/b", ""),
            4: ("3000", "", "1", "x"),
            16: ("s", "none", ""),
        }.items()
        for name in names
        for synonyms in (True, False)
    ]
    questions += [f"describe {str(one).lower()} {kind} {name or '-'}" for one, kind, name in cases]
    said = oracle(questions)[-len(cases) :]
    counts = set()
    request = m.DescribeConfigsRequest
    for (synonyms, kind, name), line in zip(cases, said, strict=True):
        theirs = decode(m.DescribeConfigsResponse, 4, bytes.fromhex(line))
        resource = request.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        asked = request(resources=[resource], include_synonyms=synonyms)
        ours = handle(image, asked, properties=PROPERTIES).response
        ours = decode(m.DescribeConfigsResponse, 4, encode(ours, 4))
        assert sorted(described(ours) ^ described(theirs)) == [], (kind, name)
        counts.add(len(theirs.results[0].configs))
    assert {36, 4, 2, 0} < counts
    assert max(counts) > 300
