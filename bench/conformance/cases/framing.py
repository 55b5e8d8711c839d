"""Frames and headers: what holds for every API, before any body is read."""

from __future__ import annotations

import struct
from typing import Any, Final

from bench.conformance.asking import creation, new
from bench.conformance.case import (
    Ask,
    End,
    HalfClose,
    Level,
    NotOffered,
    Pause,
    Program,
    Ranges,
    Receive,
    Send,
    Stage,
    Violation,
    Where,
    case,
    code,
    holds,
    same,
)
from bench.conformance.connection import decoded
from bench.conformance.facts import greeting
from wire import codec
from wire import messages as m
from wire.frame import RequestHeader, encode_request, framed
from wire.releases import broker_ranges, controller_ranges, forwardable
from wire.schema import spec

API_VERSIONS: Final = 18
_READ: Final = "SocketServer.Processor, NetworkReceive"
_OPTIONAL: Final = {7, 41, 50, 71, 72, 80, 81, 82}
"""Keys that a server may leave out: telemetry, changes of voters, what no controller handles."""
_HEAD: Final = "RequestHeader.parse, SocketServer.parseRequestHeader"


def request(number: int, version: int = 0, client_id: str | None = "c", tags: Any = ()) -> bytes:
    """The frame of an ApiVersions request."""
    header = RequestHeader(
        api_key=API_VERSIONS, api_version=version, correlation_id=number, client_id=client_id
    )
    header.unknown_tags = tuple(tags)  # type: ignore[attr-defined]  # every message has it
    return framed(encode_request(header, greeting()))


def highest(stage: Stage) -> int:
    """The newest version of ApiVersions that is offered, 3 at most."""
    return min(3, stage.versions(m.ApiVersionsRequest)[-1])


def flexible(stage: Stage) -> int:
    """The first version of ApiVersions that has tagged fields, and names of software.

    Raises:
        NotOffered: it is not offered.
    """
    if highest(stage) < 3:
        raise NotOffered("ApiVersions is not offered in version 3")
    return 3


def answered(number: int, version: int = 0, line: str = "main") -> Program:
    """Wait for the answer to such a request; returns it."""
    got = yield Receive(line)
    message = decoded(API_VERSIONS, version, number, got)
    code("the error of ApiVersions", message.error_code, 0)
    holds("the list of ApiVersions", message.api_keys, "not empty", message.api_keys)
    return message


def closed(what: str, line: str = "main") -> Program:
    """Demand that the connection is closed without an answer."""
    got = yield Receive(line, closes=True)
    if got is not End.CLOSED:
        shown = got.value if isinstance(got, End) else f"a frame of {len(got)} bytes"
        raise Violation(what, "the connection is closed without an answer", shown)


def alive(stage: Stage) -> Program:
    """Demand that the server answers on a new connection."""
    number = stage.rng.randrange(1 << 31)
    yield Send(request(number), "after")
    yield from answered(number, line="after")


def other(stage: Stage) -> Any:
    """A read request of another API that both listeners of Kafka have: (request, version)."""
    if stage.facts.offers(stage.here, m.MetadataRequest):
        return m.MetadataRequest(topics=[], allow_auto_topic_creation=False), 4
    return m.DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter=stage.prefix,
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ), 1


# ------------------------------------------------------------------ correlation and order
@case("correlation ids are returned unchanged, from -2147483648 to 2147483647", sources=_HEAD)
def correlation_ids(stage: Stage) -> Program:
    low, high = -(1 << 31), (1 << 31) - 1
    for number in (0, -1, low, high, stage.rng.randint(low, high)):
        yield Send(request(number))
        yield from answered(number)


@case("the same correlation id may be used twice, and both requests are answered", sources=_HEAD)
def correlation_ids_again(stage: Stage) -> Program:
    number = stage.rng.randrange(1 << 31)
    version = min(2, highest(stage))
    yield Send(request(number) + request(number, version))
    yield from answered(number)
    yield from answered(number, version)


@case("pipelined requests are answered one by one, in their order", sources=_READ)
def pipelining(stage: Stage) -> Program:
    newest = min(2, highest(stage))
    kinds = [stage.rng.choice((0, 1, 2, 3)) for _ in range(50)]
    asked, version = other(stage)
    key = spec(type(asked)).key or 0
    parts = []
    for number, kind in enumerate(kinds):
        if kind == 3:
            header = RequestHeader(
                api_key=key, api_version=version, correlation_id=number, client_id="c"
            )
            parts.append(framed(encode_request(header, asked)))
        else:
            parts.append(request(number, min(kind, newest)))
    yield Send(b"".join(parts))
    for number, kind in enumerate(kinds):
        if kind == 3:
            decoded(key, version, number, (yield Receive()))
        else:
            yield from answered(number, min(kind, newest))


@case("400 requests sent at once are all answered, in order", sources=_READ)
def pipelining_many(stage: Stage) -> Program:
    yield Send(b"".join(request(number) for number in range(400)))
    for number in range(400):
        yield from answered(number)


@case("a request that waits does not let a later one of the connection pass", sources=_READ)
def order_behind_a_slow_one(stage: Stage) -> Program:
    stage.versions(m.CreateTopicsRequest)
    name = stage.name()
    kind = m.CreateTopicsRequest
    asked = kind(
        topics=[kind.CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
        timeout_ms=20_000,
        validate_only=True,
    )
    header = RequestHeader(api_key=19, api_version=4, correlation_id=1, client_id="c")
    yield Send(framed(encode_request(header, asked)) + request(2))
    decoded(19, 4, 1, (yield Receive()))
    yield from answered(2)


# ------------------------------------------------------------------ how bytes arrive
@case("a request that arrives byte by byte is answered", sources=_READ)
def byte_by_byte(stage: Stage) -> Program:
    version = highest(stage)
    data = request(7, version)
    for index in range(len(data)):
        yield Send(data[index : index + 1])
        yield Pause(0.002)
    yield from answered(7, version)


@case("a frame may be cut anywhere, its length too", sources=_READ)
def cut_anywhere(stage: Stage) -> Program:
    newest = highest(stage)
    for number in range(8):
        version = min(number % 4, newest)
        data = request(number, version)
        cut = 1 + number % 4 if number < 4 else stage.rng.randrange(4, len(data))
        yield Send(data[:cut])
        yield Pause(0.02)
        yield Send(data[cut:])
        yield from answered(number, version)


@case("what is whole is answered while the next frame is still cut", sources=_READ)
def whole_before_cut(stage: Stage) -> Program:
    last = request(4)
    yield Send(request(1) + request(2) + request(3) + last[:6])
    for number in (1, 2, 3):
        yield from answered(number)
    yield Send(last[6:])
    yield from answered(4)


@case("a connection with half a frame keeps no other one waiting", sources=_READ)
def half_a_frame_beside_others(stage: Stage) -> Program:
    data = request(1)
    yield Send(data[:9], "half")
    for number in range(5):
        yield Send(request(number), "whole")
        yield from answered(number, line="whole")
    yield Send(data[9:], "half")
    yield from answered(1, line="half")


@case("a connection may be idle, also in the middle of a frame", sources="connections.max.idle.ms")
def idle(stage: Stage) -> Program:
    data = request(1)
    yield Send(request(0))
    yield from answered(0)
    yield Pause(2.5)
    yield Send(data[:7])
    yield Pause(1.5)
    yield Send(data[7:])
    yield from answered(1)


@case(
    "a client that ends its side gets its side closed",
    level=Level.SHOULD,
    sources="Selector.pollSelectionKeys",
)
def half_closed(stage: Stage) -> Program:
    yield Send(request(1))
    yield from answered(1)
    yield HalfClose()
    yield from closed("after the client has ended its side")


@case(
    "a client that ends its side within a frame gets it closed, without an answer",
    level=Level.SHOULD,
    sources="NetworkReceive.readFrom",
)
def half_closed_in_a_frame(stage: Stage) -> Program:
    yield Send(request(1)[:11])
    yield HalfClose()
    yield from closed("after the client has ended its side")
    yield from alive(stage)


@case("15 connections at once are answered", sources="SocketServer")
def connections(stage: Stage) -> Program:
    lines = [f"line-{number}" for number in range(15)]
    for number, line in enumerate(lines):
        yield Send(request(number), line)
    for number, line in reversed([*enumerate(lines)]):
        yield from answered(number, line=line)


@case(
    "900 connections at once are answered",
    level=Level.SHOULD,
    sources="SocketServer; max.connections",
    disruptive=True,
    slow=True,
)
def many_connections(stage: Stage) -> Program:
    lines = [f"line-{number}" for number in range(900)]
    for number, line in enumerate(lines):
        yield Send(request(number), line)
    for number, line in enumerate(lines):
        yield from answered(number, line=line)


@case("a connection may be idle for a minute", sources="connections.max.idle.ms", slow=True)
def idle_for_a_minute(stage: Stage) -> Program:
    yield Send(request(0))
    yield from answered(0)
    yield Pause(61)
    yield Send(request(1))
    yield from answered(1)


# ------------------------------------------------------------------ sizes
@case(
    "a frame announced larger than 2 GB less one byte is not waited for",
    sources=f"{_READ}; socket.request.max.bytes",
)
def too_large(stage: Stage) -> Program:
    yield Send(struct.pack(">i", 0x7FFFFFFF) + request(1)[4:])
    yield from closed("after a length of 2147483647")
    yield from alive(stage)


@case(
    "one byte more than socket.request.max.bytes is not waited for",
    level=Level.SHOULD,
    sources=f"{_READ}; default 104857600",
)
def above_the_limit(stage: Stage) -> Program:
    yield Send(struct.pack(">i", 104_857_601) + request(1)[4:])
    yield from closed("after a length of 104857601")


@case("a frame of one megabyte is read", sources=_READ)
def large(stage: Stage) -> Program:
    version, tags = flexible(stage), [(99, bytes(1_000_000))]
    yield Send(request(1, version, tags=tags))
    yield from answered(1, version)


@case("frames of each size around powers of two are read", sources=_READ)
def sizes(stage: Stage) -> Program:
    version = flexible(stage)
    for power in (7, 8, 10, 12, 13, 14, 15, 16, 17, 20):
        for size in (2**power - 1, 2**power, 2**power + 1):
            bare = len(request(0, version, tags=[(99, bytes(200))])) - 4 - 200
            yield Send(request(size, version, tags=[(99, bytes(max(1, size - bare)))]))
            yield from answered(size, version)


@case(
    "arrays and texts of each length around the sizes of their prefixes are read", sources="KIP-482"
)
def lengths(stage: Stage) -> Program:
    kind = m.DeleteTopicsRequest
    for version in stage.versions(kind):
        for count in (0, 1, 126, 127, 128, 129, 300):
            names = [f"{stage.prefix}-none-{number}" for number in range(count)]
            if count:
                names[0] = f"{stage.prefix}-none-".ljust(count, "x")[:249]
            asked = kind(topic_names=names, timeout_ms=10_000)
            if version >= 6:
                topics = [kind.DeleteTopicState(name=one) for one in names]
                asked = kind(topics=topics, timeout_ms=10_000)
            answer = (yield Ask(asked, version)).message
            same(
                f"names in the answer to {count}", {one.name for one in answer.responses}, {*names}
            )
            same(f"errors of {count}", {one.error_code for one in answer.responses} - {3}, set())


@case("nothing is throttled without a quota", level=Level.SHOULD, sources="KIP-219, KIP-599")
def not_throttled(stage: Stage) -> Program:
    asked, _ = other(stage)
    none = creation(new(stage.name()), validate_only=True)
    for request_ in (asked, greeting(), none, m.DeleteTopicsRequest(timeout_ms=1_000)):
        message = (yield Ask(request_)).message
        same(f"throttle time of {type(message).__name__}", message.throttle_time_ms, 0)


@case("a negative length closes the connection", sources=_READ)
def negative(stage: Stage) -> Program:
    yield Send(struct.pack(">i", -1) + request(1)[4:])
    yield from closed("after a length of -1")
    yield from alive(stage)


@case("an empty frame closes the connection", sources=_HEAD)
def empty(stage: Stage) -> Program:
    yield Send(struct.pack(">i", 0))
    yield from closed("after a length of 0")
    yield from alive(stage)


@case("a frame shorter than a header closes the connection", sources=_HEAD)
def short_header(stage: Stage) -> Program:
    for size in (1, 3, 4, 7, 9):
        yield Send(framed(request(1)[4 : 4 + size]), f"of {size}")
        yield from closed(f"after a frame of {size} bytes", f"of {size}")
    yield from alive(stage)


@case("a client id longer than the frame closes the connection", sources=_HEAD)
def long_client_id(stage: Stage) -> Program:
    yield Send(framed(struct.pack(">hhih", API_VERSIONS, 0, 1, 500) + b"short"))
    yield from closed("after a client id of 500 bytes in a frame of 15")
    yield from alive(stage)


@case("bytes of another protocol close the connection", level=Level.SHOULD, sources=_READ)
def other_protocol(stage: Stage) -> Program:
    yield Send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    yield from closed("after an HTTP request")
    yield from alive(stage)


# ------------------------------------------------------------------ headers
@case("a client id may be null, empty, long, and of any characters", sources="RequestHeader.json")
def client_ids(stage: Stage) -> Program:
    for number, name in enumerate((None, "", "a b", "é日𝄞", "x" * 1_000, "\x00\n")):
        for version in {0, highest(stage)}:
            yield Send(request(number, version, name))
            yield from answered(number, version)


@case(
    "unknown tagged fields of a request header are skipped", sources="KIP-482; RequestHeader.json"
)
def header_tags(stage: Stage) -> Program:
    tags = [(0, b""), (1, b"\x00"), (77, bytes(300)), (10_000, b"x")]
    yield Send(request(1, flexible(stage), tags=tags) + request(2, 0))
    yield from answered(1, 3)
    yield from answered(2)
    asked, _ = other(stage)
    version = stage.versions(type(asked))[-1]
    yield Ask(asked, version, header_tags=tuple(tags))


@case("tagged fields that end after the frame close the connection", sources="KIP-482")
def tags_beyond_the_frame(stage: Stage) -> Program:
    good = struct.pack(">hhih", API_VERSIONS, flexible(stage), 1, 1) + b"c"
    yield Send(framed(good + b"\x01\x05\x7f\x00"))
    yield from closed("after a tagged field of 127 bytes in a frame that ends before")
    yield from alive(stage)


# ------------------------------------------------------------------ what is not known
@case("an API key that no release has closes the connection", sources=_HEAD)
def unknown_api(stage: Stage) -> Program:
    for key in (9_999, 32_767, -1):
        head = struct.pack(">hhih", key, 0, 1, 1) + b"c"
        yield Send(framed(head), f"key {key}")
        yield from closed(f"after a request of API key {key}", f"key {key}")
    yield from alive(stage)


@case(
    "an API that the listener does not offer closes the connection",
    sources="ApiVersionManager.isApiEnabled",
)
def not_offered_api(stage: Stage) -> Program:
    asked: list[tuple[Any, int]] = [
        (m.VoteRequest(), 0),
        (m.BrokerHeartbeatRequest(), 0),
        (m.ProduceRequest(acks=1), 3),
        (m.ListGroupsRequest(), 0),
        (m.LeaderAndIsrRequest(), 4),
    ]
    for message, version in asked:
        if stage.facts.offers(stage.here, type(message)):
            continue
        key = spec(type(message)).key or 0
        header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="c")
        yield Send(framed(encode_request(header, message)), f"key {key}")
        yield from closed(f"after {spec(type(message)).name} v{version}", f"key {key}")
    yield from alive(stage)


@case(
    "a version above the offered ones closes the connection; ApiVersions alone is excepted",
    sources="ApiKeys.isVersionEnabled",
)
def unknown_version(stage: Stage) -> Program:
    for key, (_, high) in sorted(stage.facts.ranges[stage.here].items()):
        if key == API_VERSIONS:
            continue
        head = struct.pack(">hhih", key, high + 1, 1, 1) + b"c\x00\x00"
        yield Send(framed(head), "above")
        yield from closed(f"after API key {key} in version {high + 1}", "above")
        break
    asked, _ = other(stage)
    key = spec(type(asked)).key or 0
    for version in (stage.facts.ranges[stage.here][key][1] + 1, 1_000, -1):
        head = struct.pack(">hhih", key, version, 1, 1) + b"c\x00\x00\x00\x00\x00"
        yield Send(framed(head), f"version {version}")
        yield from closed(f"after API key {key} in version {version}", f"version {version}")
    yield from alive(stage)


@case(
    "ApiVersions in a version that is not known is answered in version 0 with error 35",
    sources="KIP-511; RequestContext.isUnsupportedApiVersionsRequest",
)
def api_versions_too_new(stage: Stage) -> Program:
    newest = stage.facts.ranges[stage.here][API_VERSIONS][1]
    for version in (newest + 1, 77, 32_767):
        head = struct.pack(">hhih", API_VERSIONS, version, version, 1) + b"c"
        # The body is of a version that nobody knows: it must not be read.
        yield Send(framed(head + b"\x00" + stage.rng.randbytes(40)))
        got = yield Receive()
        if not isinstance(got, bytes):
            raise Violation(f"ApiVersions v{version}", "an answer of version 0", got.value)
        same(f"correlation id of ApiVersions v{version}", int.from_bytes(got[:4], "big"), version)
        answer = _version_0(got)
        code(f"ApiVersions v{version}", answer.error_code, 35)
        yield Send(request(5))
        yield from answered(5)


@case(
    "that answer lists ApiVersions alone, with its versions",
    level=Level.SHOULD,
    sources="KIP-511; ApiVersionsRequest.getErrorResponse",
)
def api_versions_too_new_lists(stage: Stage) -> Program:
    low, high = stage.facts.ranges[stage.here][API_VERSIONS]
    yield Send(framed(struct.pack(">hhih", API_VERSIONS, high + 1, 3, 1) + b"c\x00"))
    got = yield Receive()
    listed = _version_0(got if isinstance(got, bytes) else b"").api_keys
    pairs = [(one.api_key, one.min_version, one.max_version) for one in listed]
    same("APIs of the answer", pairs, [(API_VERSIONS, low, high)])


def _version_0(frame: bytes) -> Any:
    try:
        return codec.decode(m.ApiVersionsResponse, 0, frame[4:])
    except Exception as error:
        raise Violation("the answer to an unknown version", "a body of version 0", error) from error


# ------------------------------------------------------------------ bodies
@case("a body that ends too early closes the connection", sources="RequestContext.parseRequest")
def short_body(stage: Stage) -> Program:
    asked, version = other(stage)
    key = spec(type(asked)).key or 0
    header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="c")
    data = encode_request(header, asked)
    yield Send(framed(data[:-1]))
    yield from closed("after a body that lacks its last byte")
    yield from alive(stage)


@case(
    "an array longer than the frame closes the connection, and nothing else",
    sources="RequestContext.parseRequest; KAFKA-14064",
)
def long_array(stage: Stage) -> Program:
    key = 3 if stage.here is Where.BROKER else 19
    for size in (0x7FFFFFFF, 1_000_000):
        head = struct.pack(">hhih", key, 1, 1, 1) + b"c" + struct.pack(">i", size)
        yield Send(framed(head), f"of {size}")
        yield from closed(f"after an array of {size} elements in a frame of 15 bytes", f"of {size}")
    yield from alive(stage)


@case("a text longer than the frame closes the connection", sources="RequestContext.parseRequest")
def long_text(stage: Stage) -> Program:
    key = 3 if stage.here is Where.BROKER else 20
    head = struct.pack(">hhih", key, 1, 1, 1) + b"c" + struct.pack(">ih", 1, 9_000)
    yield Send(framed(head + b"short"))
    yield from closed("after a text of 9000 bytes in a frame that ends before")
    yield from alive(stage)


@case(
    "bytes after a body are ignored",
    level=Level.SHOULD,
    sources="RequestContext.parseRequest; librdkafka sends three",
)
def trailing_bytes(stage: Stage) -> Program:
    asked, version = other(stage)
    key = spec(type(asked)).key or 0
    header = RequestHeader(api_key=key, api_version=version, correlation_id=4, client_id="c")
    yield Send(framed(encode_request(header, asked) + b"\x00\x00\x00"))
    decoded(key, version, 4, (yield Receive()))


# ------------------------------------------------------------------ ApiVersions itself
@case(
    "ApiVersions tells the same in each version, as often as it is asked",
    sources="KIP-35, KIP-511",
    rows="K21",
)
def api_versions_agree(stage: Stage) -> Program:
    expected = fixed(stage.facts.ranges[stage.here])
    for version in [*stage.versions(m.ApiVersionsRequest), 0]:
        message = (yield Ask(greeting(), version)).message
        code(f"ApiVersions v{version}", message.error_code, 0)
        got = {one.api_key: (one.min_version, one.max_version) for one in message.api_keys}
        same(f"APIs listed by v{version}: each once", len(message.api_keys), len(got))
        changed = {*fixed(got).items()} ^ {*expected.items()}
        same(f"APIs listed by ApiVersions v{version} that differ", changed, set())
        same(f"throttle time of ApiVersions v{version}", message.throttle_time_ms, 0)


def fixed(ranges: Ranges) -> Ranges:
    """Without what a broker forwards: that changes with what it knows of the controller."""
    return {key: one for key, one in ranges.items() if key not in forwardable("3.9")}


@case("each API's lowest version is at most its highest, none is negative", sources="KIP-35")
def api_versions_ranges(stage: Stage) -> Program:
    message = (yield Ask(greeting(), 0)).message
    for one in message.api_keys:
        fits = 0 <= one.min_version <= one.max_version
        holds(f"versions of API key {one.api_key}", fits, "0 <= lowest <= highest", one)
    keys = [one.api_key for one in message.api_keys]
    holds("ApiVersions", API_VERSIONS in keys, "lists itself", keys)


@case(
    "the listed versions are those of a release",
    level=Level.SHOULD,
    sources="ApiKeys.apisForListener",
    rows="K21",
)
def api_versions_of_the_release(stage: Stage) -> Program:
    release = stage.facts.release
    if not release:
        raise NotOffered("the release is not known")
    message = (yield Ask(greeting(), 0)).message
    told = {one.api_key: (one.min_version, one.max_version) for one in message.api_keys}
    tables = [broker_ranges(release), broker_ranges(release, mode="zk")]
    if stage.here is Where.CONTROLLER:
        tables = [controller_ranges(release)]
    differences = [_differing(told, expected) for expected in tables]
    best = min(differences, key=len)
    shown = {key: told.get(key) for key in best}
    same(f"the listed APIs of {release} that differ", shown, best)


def _differing(told: Ranges, expected: Ranges) -> dict[int, tuple[int, int] | None]:
    """Key -> the versions that the release has, of what is listed otherwise or is missing."""
    return {
        key: expected.get(key)
        for key in sorted({*told, *expected})
        if told.get(key) != expected.get(key) and (key in told or key not in _OPTIONAL)
    }


@case(
    "a client that names its software wrongly gets INVALID_REQUEST",
    sources="KIP-511; ApiVersionsRequest.isValid",
)
def software_names(stage: Stage) -> Program:
    first = flexible(stage)
    version = stage.rng.choice(
        [one for one in stage.versions(m.ApiVersionsRequest) if one >= first]
    )
    for name in ("", "a b", "-a", "a-", "a_b", "é", "a\n"):
        for pair in ((name, "1.0"), ("a", name)):
            asked = m.ApiVersionsRequest(
                client_software_name=pair[0], client_software_version=pair[1]
            )
            message = (yield Ask(asked, version, line=f"{pair}")).message
            code(f"ApiVersions v{version} of software {pair}", message.error_code, 42)


@case("a client may name its software by letters, digits, dots and dashes", sources="KIP-511")
def software_names_that_fit(stage: Stage) -> Program:
    flexible(stage)
    for name in ("a", "apache-kafka-java", "3.9.2", "A.b-C.0"):
        asked = m.ApiVersionsRequest(client_software_name=name, client_software_version=name)
        message = (yield Ask(asked, 3)).message
        code(f"ApiVersions v3 of software {name}", message.error_code, 0)


@case(
    "a feature whose lowest version is 0 is left out below version 4",
    sources="KAFKA-17011; ApiVersionsResponse.maybeFilterSupportedFeatureKeys",
    level=Level.MUST,
)
def features_of_version_0(stage: Stage) -> Program:
    message = (yield Ask(greeting(), flexible(stage))).message
    low = [one.name for one in message.supported_features if one.min_version < 1]
    same("features with lowest version 0 in ApiVersions v3", low, [])


@case(
    "finalised features are among the supported ones, within their range",
    sources="KIP-584, KIP-778",
)
def features_fit(stage: Stage) -> Program:
    newest = stage.versions(m.ApiVersionsRequest)[-1]
    message = (yield Ask(greeting(), newest)).message
    ranges = {one.name: one for one in message.supported_features}
    for one in message.finalized_features:
        own = ranges.get(one.name)
        if own is None:
            continue
        fits = own.min_version <= one.max_version_level <= own.max_version
        holds(f"the level of {one.name}", fits, f"within {own}", one)
        same(f"both levels of {one.name}", one.min_version_level, one.max_version_level)
    if message.finalized_features:
        epoch = message.finalized_features_epoch
        holds("the epoch of the finalised features", epoch >= 0, "0 or more", epoch)
