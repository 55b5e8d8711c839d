"""Envelope (KIP-590): a request inside a request, for another principal."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import creation, new
from bench.conformance.case import (
    Ask,
    Pause,
    Program,
    Stage,
    Violation,
    Where,
    case,
    code,
    only,
    same,
)
from bench.conformance.cases import acls
from bench.conformance.cases.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CREATE,
    DENY,
    GROUP,
    LITERAL,
    PREFIXED,
    TOPIC,
    WRITE,
    Entry,
    guarded,
)
from bench.conformance.connection import decoded
from wire import codec
from wire import messages as m
from wire.frame import RequestHeader, encode_request
from wire.schema import spec

_ASKS: Final = (m.EnvelopeRequest,)
_SOURCES: Final = "KIP-590; EnvelopeUtils.handleEnvelopeRequest"
_LOOKS: Final = 200
ADDRESS: Final = b"\x7f\x00\x00\x01"


def principal(kind: str = "User", name: str = "ANONYMOUS") -> bytes:
    """A principal as Kafka's default builder writes it: a version, then the body."""
    data = m.DefaultPrincipalData(type=kind, name=name, token_authenticated=False)
    return b"\x00\x00" + codec.encode(data, 0)


def inner(request: Any, version: int, number: int, client_id: str | None = "inner") -> bytes:
    """Header and body of the request inside."""
    key = spec(type(request)).key or 0
    header = RequestHeader(
        api_key=key, api_version=version, correlation_id=number, client_id=client_id
    )
    return encode_request(header, request)


def wrapped(data: bytes, who: bytes | None = None, address: bytes = ADDRESS) -> Any:
    """An Envelope."""
    who = principal() if who is None else who
    return m.EnvelopeRequest(request_data=data, request_principal=who, client_host_address=address)


@case(
    "an Envelope is answered with the answer to its request, correlation id and version inside",
    sources=_SOURCES,
    rows="I08 I12 I13",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.CreateTopicsRequest),
    disruptive=True,
)
def carried(stage: Stage) -> Program:
    for version in stage.versions(m.CreateTopicsRequest):
        name, number = stage.name(), stage.rng.randrange(1 << 31)
        kind = creation(new(name))
        made = Ask(wrapped(inner(kind, version, number)))
        for expected in (0, 36):
            answer = (yield made).message
            code("the Envelope", answer.error_code, 0)
            if answer.response_data is None:
                raise Violation("the Envelope", "the answer inside", "none")
            message = decoded(19, version, number, answer.response_data)
            result = only("results", message.topics)
            same("the topic inside", result.name, name)
            code("the error inside", result.error_code, expected)
        stage.shared.setdefault("enveloped", []).append(name)
    yield from _removed(stage)


def _removed(stage: Stage) -> Program:
    kind = m.DeleteTopicsRequest
    names = stage.shared.pop("enveloped", [])
    topics = [kind.DeleteTopicState(name=one) for one in names]
    answer = (yield Ask(kind(topics=topics, timeout_ms=20_000), lowest=6)).message
    same("errors of DeleteTopics", {one.error_code for one in answer.responses}, {0})


@case(
    "an Envelope may come from any address, of four bytes or sixteen",
    sources=_SOURCES,
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.CreateTopicsRequest),
    disruptive=True,
)
def addresses(stage: Stage) -> Program:
    data = inner(creation(new(stage.name()), validate_only=True), 5, 9)
    for address in (ADDRESS, bytes(15) + b"\x01"):
        answer = (yield Ask(wrapped(data, address=address))).message
        code(f"the Envelope of an address of {len(address)} bytes", answer.error_code, 0)
    for address in (b"", b"\x7f\x00\x01", bytes(17)):
        answer = (yield Ask(wrapped(data, address=address))).message
        code(f"the Envelope of an address of {len(address)} bytes", answer.error_code, 42)
        same("the answer inside", answer.response_data, None)


@case(
    "an Envelope with what brokers do not forward gets INVALID_REQUEST",
    sources=_SOURCES,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def not_forwardable(stage: Stage) -> Program:
    yield from ()
    for request, version in (
        (m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (m.DescribeClusterRequest(), 0),
        (wrapped(inner(creation(), 5, 1)), 0),
        (m.BrokerHeartbeatRequest(broker_id=1), 0),
    ):
        answer = (yield Ask(wrapped(inner(request, version, 3)))).message
        code(f"an Envelope with {spec(type(request)).name}", answer.error_code, 42)
        same("the answer inside", answer.response_data, None)


@case(
    "an Envelope with a request that cannot be read gets UNSUPPORTED_VERSION",
    sources=_SOURCES,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def unreadable(stage: Stage) -> Program:
    whole = inner(creation(new(stage.name())), 5, 1)
    too_new = whole[:2] + (99).to_bytes(2, "big") + whole[4:]
    for what, data in (
        ("a version too new", too_new),
        ("half a body", whole[:-3]),
        ("no request", b""),
    ):
        answer = (yield Ask(wrapped(data))).message
        code(f"an Envelope with {what}", answer.error_code, 35)
        same("the answer inside", answer.response_data, None)


@case(
    "an Envelope whose principal cannot be read gets PRINCIPAL_DESERIALIZATION_FAILURE",
    sources=_SOURCES,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def principals(stage: Stage) -> Program:
    data = inner(creation(new(stage.name()), validate_only=True), 5, 1)
    for who in (b"\x00", b"\x00\x63" + principal()[2:], principal()[:-4]):
        answer = (yield Ask(wrapped(data, who))).message
        code(f"an Envelope with a principal of {len(who)} bytes", answer.error_code, 97)
        same("the answer inside", answer.response_data, None)


@case(
    "of an Envelope the principal inside is judged, and its refusal is inside",
    sources=_SOURCES,
    rows="I10 I11 I13",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.CreateTopicsRequest),
    disruptive=True,
)
def judged(stage: Stage) -> Program:
    guarded(stage)
    name = stage.name()
    code("the error inside", (yield from asked_by(stage, f"nobody-{name}", name)), 29)
    answer = yield Ask(creation(new(name)))
    code("CreateTopics as ourselves", only("results", answer.message.topics).error_code, 0)
    yield from _deleted(name)


def asked_by(stage: Stage, user: str, topic: str, address: bytes = ADDRESS) -> Program:
    """The error that a user gets for CreateTopics, validate_only, in an Envelope."""
    number = stage.rng.randrange(1 << 31)
    data = inner(creation(new(topic), validate_only=True), 7, number)
    answer = (yield Ask(wrapped(data, principal(name=user), address))).message
    code("the Envelope", answer.error_code, 0)
    message = decoded(19, 7, number, answer.response_data or b"")
    return only("results", message.topics).error_code


def _deleted(name: str) -> Program:
    kind = m.DeleteTopicsRequest
    asked = kind(topics=[kind.DeleteTopicState(name=name)], timeout_ms=20_000)
    answer = (yield Ask(asked, lowest=6)).message
    code("DeleteTopics", only("results", answer.responses).error_code, 0)


@case(
    "the authorizer: entries of users, hosts and patterns; a denial wins",
    sources="KIP-11, KIP-290; StandardAuthorizerData.authorize",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.CreateTopicsRequest, m.CreateAclsRequest),
    disruptive=True,
)
def decisions(stage: Stage) -> Program:
    guarded(stage)
    user, topic = stage.name("u"), stage.name("t")
    who = f"User:{user}"
    here, there = "127.0.0.1", "198.51.100.9"
    table: list[tuple[str, list[Entry], bool]] = [
        ("no entry", [], False),
        ("the topic's name", [(TOPIC, topic, LITERAL, who, "*", CREATE, ALLOW)], True),
        ("another name", [(TOPIC, f"{topic}x", LITERAL, who, "*", CREATE, ALLOW)], False),
        ("a prefix", [(TOPIC, topic[:-2], PREFIXED, who, "*", CREATE, ALLOW)], True),
        ("the name as a prefix", [(TOPIC, topic, PREFIXED, who, "*", CREATE, ALLOW)], True),
        ("a longer prefix", [(TOPIC, f"{topic}x", PREFIXED, who, "*", CREATE, ALLOW)], False),
        ("each topic", [(TOPIC, "*", LITERAL, who, "*", CREATE, ALLOW)], True),
        ("the cluster", [(CLUSTER, "kafka-cluster", LITERAL, who, "*", CREATE, ALLOW)], True),
        ("a group", [(GROUP, topic, LITERAL, who, "*", CREATE, ALLOW)], False),
        ("all operations", [(TOPIC, topic, LITERAL, who, "*", ALL, ALLOW)], True),
        ("another operation", [(TOPIC, topic, LITERAL, who, "*", WRITE, ALLOW)], False),
        ("this host", [(TOPIC, topic, LITERAL, who, here, CREATE, ALLOW)], True),
        ("another host", [(TOPIC, topic, LITERAL, who, there, CREATE, ALLOW)], False),
        ("another user", [(TOPIC, topic, LITERAL, f"{who}x", "*", CREATE, ALLOW)], False),
        ("another type", [(TOPIC, topic, LITERAL, f"Group:{user}", "*", CREATE, ALLOW)], False),
        (
            "a denial of the name beside each topic",
            [
                (TOPIC, "*", LITERAL, who, "*", CREATE, ALLOW),
                (TOPIC, topic, LITERAL, who, "*", CREATE, DENY),
            ],
            False,
        ),
        (
            "a denial of a prefix beside the name",
            [
                (TOPIC, topic, LITERAL, who, "*", CREATE, ALLOW),
                (TOPIC, topic[:-1], PREFIXED, who, "*", ALL, DENY),
            ],
            False,
        ),
        (
            "a denial of another host beside the name",
            [
                (TOPIC, topic, LITERAL, who, "*", CREATE, ALLOW),
                (TOPIC, topic, LITERAL, who, there, CREATE, DENY),
            ],
            True,
        ),
    ]
    for what, entries, allowed in table:
        if entries:
            answer = (yield Ask(acls.creation(*entries), lowest=1)).message
            same("errors of CreateAcls", {one.error_code for one in answer.results}, {0})
        expected = 0 if allowed else 29
        for _ in range(_LOOKS):  # an authorizer follows what is decided
            found = yield from asked_by(stage, user, topic)
            if found == expected:
                break
            yield Pause(0.05)
        code(f"CreateTopics by an entry for {what}", found, expected)
        yield from acls.removed(*entries)
