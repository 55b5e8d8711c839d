"""Topic and broker configs: what is known, what is valid, what is in force, what is written."""

from __future__ import annotations

from dataclasses import MISSING, fields
from itertools import permutations
from typing import Any

import pytest

from emulator.config.load import Config
from emulator.controller.context import ControllerConfig
from emulator.controller.tables import config_defs
from emulator.controller.tables.broker_config_defs import validate_broker_configs
from emulator.controller.tables.config_defs import (
    ConfigRefusedError,
    effective_topic_configs,
    topic_configs,
    validate_topic_configs,
)
from tests.unit.controller.world import World, broker, config, create, handle, image_of, topic
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16


def set_to(kind: int, name: str, key: str, value: str | None) -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


IMAGE = image_of(
    broker(1),
    topic("t", 1),
    set_to(TOPIC, "t", "retention.ms", "5"),
    set_to(TOPIC, "t", "cleanup.policy", "compact"),
    set_to(BROKER, "1", "log.cleaner.threads", "2"),
    set_to(CLIENT_METRICS, "t", "metrics", "*"),
)


@pytest.mark.parametrize(("release", "count"), [("3.4", 29), ("3.7", 31), ("3.8", 34), ("3.9", 36)])
def test_each_release_knows_its_topic_configs(release: str, count: int) -> None:
    known = topic_configs(release)
    assert len(known) == count
    assert list(known) == sorted(known)


@pytest.mark.parametrize("release", ["3.4", "3.9"])
def test_every_default_is_valid(release: str) -> None:
    defaults = {one.name: one.default for one in topic_configs(release).values()}
    validate_topic_configs(config(release=release), defaults)


BAD = [
    ("no.such.config", "1", "Unknown topic config name: no.such.config"),
    ("retention.ms", "x", "Not a number of type LONG"),
    ("retention.ms", "-2", "at least -1"),
    ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
    ("segment.bytes", "13", "at least 14"),
    ("segment.bytes", "2147483648", "Not a number of type INT"),
    ("segment.ms", "0", "at least 1"),
    ("min.insync.replicas", "0", "at least 1"),
    ("min.cleanable.dirty.ratio", "1.1", "no more than 1"),
    ("min.cleanable.dirty.ratio", "0_5", "Not a number of type DOUBLE"),
    ("retention.ms", "86400000\u00a0", "Not a number of type LONG"),
    ("retention.ms", "\x8586400000", "Not a number of type LONG"),
    ("unclean.leader.election.enable", "true\u2009", "either true or false"),
    ("cleanup.policy", "compact\u00a0", "one of: compact, delete"),
    ("compression.type", "gzip\u2003", "one of: uncompressed"),
    ("message.format.version", "4.0", "not a valid version"),
    ("message.format.version", "1.01", "not a valid version"),
    ("leader.replication.throttled.replicas", "0:1 ,1:2", "brokers cannot read it"),
    ("leader.replication.throttled.replicas", "0:99999999999", "brokers cannot read it"),
    ("cleanup.policy", "compact,wipe", "one of: compact, delete"),
    ("compression.type", "rar", "one of: uncompressed"),
    ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
    ("compression.lz4.level", "18", "no more than 17"),
    ("message.timestamp.type", "Never", "CreateTime, LogAppendTime"),
    ("preallocate", "yes", "true or false"),
    ("message.format.version", "new", "not a valid version"),
    ("leader.replication.throttled.replicas", "1", "literal '*'"),
    ("follower.replication.throttled.replicas", "*,1:2", "literal '*'"),
    ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
]


@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_bad_values(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigRefusedError) as refusal:
        validate_topic_configs(config(), {name: value})
    assert why in str(refusal.value)


GOOD = [
    ("retention.ms", " -1 "),
    ("cleanup.policy", "compact, delete"),
    ("preallocate", "TRUE"),
    ("compression.gzip.level", "-1"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "0:1,12:3"),
    ("leader.replication.throttled.replicas", ""),
    ("message.format.version", "2.8-IV1"),
    ("min.cleanable.dirty.ratio", "1e-1"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_good_values(name: str, value: str) -> None:
    validate_topic_configs(config(), {name: value})


def test_a_message_format_is_one_that_the_release_knows() -> None:
    given = {"message.format.version": "3.9-IV0"}
    validate_topic_configs(config(release="3.9"), given)
    with pytest.raises(ConfigRefusedError):
        validate_topic_configs(config(release="3.4"), given)


BAD_OF_BROKERS = [
    ("leader.replication.throttled.rate", "5 ", "Not a number of type LONG"),
    ("follower.replication.throttled.rate", "\t5", "Not a number of type LONG"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "-1", "at least 0"),
    ("listener.name.a.max.connections", "5\u00a0", "Not a number of type INT"),
    ("sasl.login.refresh.buffer.seconds", "32768", "Not a number of type SHORT"),
    ("num.io.threads", "0", "at least 1"),
    ("log.cleaner.threads", "0", "at least 1"),
    ("log.retention.ms", "0", "must be unlimited"),
    ("log.cleanup.policy", "compact\u00a0", "one of: compact, delete"),
    ("compression.type", "rar", "one of: uncompressed"),
    ("compression.gzip.level", "0", "between 1 and 9"),
    ("ssl.client.auth", "Required", "one of: required"),
    ("max.connections.per.ip.overrides", "a:1,b", "not address:count"),
]


@pytest.mark.parametrize(("name", "value", "why"), BAD_OF_BROKERS)
def test_values_that_brokers_do_not_load(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigRefusedError) as refusal:
        validate_broker_configs({name: value})
    assert why in str(refusal.value)


def test_values_that_brokers_load() -> None:
    validate_broker_configs(
        {
            "leader.replication.throttled.rate": "+05",
            "log.retention.ms": " -1 ",
            "listener.name.a.max.connections": " 5",
            "listener.name.a.plain.sasl.jaas.config": "x",
            "max.connections.per.ip.overrides": "",
            "listener.name.a.max.connections.per.ip.overrides": "x",
            "of.a.plugin": "x",
        }
    )


def test_a_value_that_is_there_stops_no_other_change() -> None:
    """It may come from ZooKeeper."""
    before = image_of(broker(1), set_to(BROKER, "1", "num.io.threads", "0"))
    change = Incremental.AlterableConfig(name="background.threads", value="7")
    resource = Incremental.AlterConfigsResource(4, "1", [change])
    request = Incremental(resources=[resource])
    (answer,) = handle(before, request).response.responses
    assert answer.error_code == ErrorCode.NONE


def test_values_that_contradict_each_other() -> None:
    with pytest.raises(ConfigRefusedError, match=r"min\.compaction\.lag\.ms"):
        validate_topic_configs(
            config(), {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}
        )


def test_remote_storage_where_it_is_switched_on() -> None:
    properties = {"remote.log.storage.system.enable": "true"}
    validate_topic_configs(config(properties=properties), {"remote.storage.enable": "true"})


LAYERS = [
    # what is set, from the weakest on -> value and source in force
    ({}, ("604800000", 5)),
    ({"static": ("log.retention.hours", "2")}, ("7200000", 4)),
    ({"static": ("log.retention.minutes", "3")}, ("180000", 4)),
    ({"static": ("log.retention.ms", "4")}, ("4", 4)),
    ({"cluster": ("log.retention.ms", "5")}, ("5", 3)),
    ({"broker": ("log.retention.ms", "6")}, ("6", 2)),
    ({"topic": ("retention.ms", "7")}, ("7", 1)),
]


def test_where_an_effective_value_comes_from() -> None:
    """Each row adds a stronger layer; the node's own broker config counts, another's does not."""
    layers: dict[str, dict[str, str]] = {"static": {}, "cluster": {}, "broker": {}, "topic": {}}
    for added, expected in LAYERS:
        for layer, (name, value) in added.items():
            layers[layer][name] = value
        records = [
            set_to(BROKER, resource, name, value)
            for layer, resource in (("cluster", ""), ("broker", "3000"))
            for name, value in layers[layer].items()
        ]
        image = image_of(*records, set_to(BROKER, "1", "log.retention.ms", "99"))
        settings = config(properties=layers["static"])
        effective = {
            one.name: (one.value, one.source)
            for one in effective_topic_configs(image, settings, layers["topic"])
        }
        assert effective["retention.ms"] == expected
        assert len(effective) == 36


# "Server Default Property" of Kafka's page of topic configs, and the two of local.retention.
OF_BROKERS = """
cleanup.policy log.cleanup.policy compact
compression.gzip.level compression.gzip.level 5
compression.lz4.level compression.lz4.level 5
compression.type compression.type gzip
compression.zstd.level compression.zstd.level 5
delete.retention.ms log.cleaner.delete.retention.ms 77
file.delete.delay.ms log.segment.delete.delay.ms 77
flush.messages log.flush.interval.messages 77
flush.ms log.flush.interval.ms 77
flush.ms log.flush.scheduler.interval.ms 77
index.interval.bytes log.index.interval.bytes 77
local.retention.bytes log.local.retention.bytes 77
local.retention.ms log.local.retention.ms 77
max.compaction.lag.ms log.cleaner.max.compaction.lag.ms 77
max.message.bytes message.max.bytes 77
message.downconversion.enable log.message.downconversion.enable false
message.format.version log.message.format.version 2.8-IV1
message.timestamp.after.max.ms log.message.timestamp.after.max.ms 77
message.timestamp.before.max.ms log.message.timestamp.before.max.ms 77
message.timestamp.difference.max.ms log.message.timestamp.difference.max.ms 77
message.timestamp.type log.message.timestamp.type LogAppendTime
min.cleanable.dirty.ratio log.cleaner.min.cleanable.ratio 0.7
min.compaction.lag.ms log.cleaner.min.compaction.lag.ms 77
min.insync.replicas min.insync.replicas 2
preallocate log.preallocate true
retention.bytes log.retention.bytes 77
retention.ms log.retention.ms 77
retention.ms log.retention.minutes 2=120000
retention.ms log.retention.hours 2=7200000
segment.bytes log.segment.bytes 77
segment.index.bytes log.index.size.max.bytes 77
segment.jitter.ms log.roll.jitter.ms 77
segment.jitter.ms log.roll.jitter.hours 2=7200000
segment.ms log.roll.ms 77
segment.ms log.roll.hours 2=7200000
unclean.leader.election.enable unclean.leader.election.enable true
"""


def test_each_default_is_that_of_kafka_s_broker_property() -> None:
    table = [line.split() for line in OF_BROKERS.split("\n") if line]
    without = {one.name: one for one in effective_topic_configs(IMAGE, config(), {})}
    for name, key, text in table:
        value, _, expected = text.partition("=")
        found = effective_topic_configs(IMAGE, config(properties={key: value}), {})
        changed = {one.name: one.value for one in found if one != without[one.name]}
        assert changed == {name: expected or value}, key
    alone = {name for name in without if name.startswith("remote.") or ".throttled." in name}
    assert {*without} - {name for name, _, _ in table} == alone, "no broker has a default of them"


Incremental = m.IncrementalAlterConfigsRequest
Legacy = m.AlterConfigsRequest
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def incremental(*changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t") -> Any:
    configs = [
        Incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = Incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    return Incremental(resources=[resource])


def legacy(values: dict[str, str | None], kind: int = TOPIC, name: str = "t") -> Any:
    configs = [Legacy.AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = Legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return Legacy(resources=[resource])


REFUSED = [
    (incremental(kind=8), ErrorCode.INVALID_REQUEST, "Unexpected resource type 8"),
    (incremental(kind=0), ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 0"),
    (legacy({}, kind=32), ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 32"),
    (incremental(kind=16, name=""), ErrorCode.INVALID_REQUEST, "name can't be empty"),
    (incremental(("a", SET, "1"), kind=16), ErrorCode.INVALID_REQUEST, "Unknown client metrics"),
    (incremental(("interval.ms", SET, "99"), kind=16), 42, "must be between 100 and 3600000"),
    (incremental(("interval.ms", SET, "x"), kind=16), 42, "must be between 100 and 3600000"),
    (incremental(("match", SET, "client_id"), kind=16), 40, "matching pattern: client_id"),
    (incremental(("match", SET, "a=b"), kind=16), 40, "matching pattern: a=b"),
    (incremental(("match", SET, "client_id=[,a"), kind=16), 40, "matching pattern: client_id=["),
    (incremental(("metrics", APPEND, "a"), kind=16), 40, "not LIST"),
    (incremental(name=""), ErrorCode.INVALID_REQUEST, "Default topic resources"),
    (incremental(kind=BROKER, name="x"), ErrorCode.INVALID_REQUEST, "base 10"),
    (incremental(kind=BROKER, name="-1"), ErrorCode.INVALID_REQUEST, "negative"),
    (incremental(kind=BROKER, name="9"), ErrorCode.BROKER_ID_NOT_REGISTERED, "id 9"),
    (incremental(("retention.ms", SET, "1"), name="gone"), 3, "does not exist"),
    (incremental(("no.such", SET, "1"), name="gone"), 40, "Unknown topic config"),
    (incremental(("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST, "operation type 9"),
    (incremental(("cleanup.policy", APPEND, None)), ErrorCode.INVALID_REQUEST, "Null value"),
    (incremental(("cleanup.policy", SUBTRACT, None)), ErrorCode.INVALID_REQUEST, "Null value"),
    (incremental(("retention.ms", APPEND, None)), ErrorCode.INVALID_CONFIG, "not LIST"),
    (incremental(("retention.ms", SET, None), name="gone"), 3, "does not exist"),
    (incremental(("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG, "not LIST"),
    (incremental(("no.such", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG, "not LIST"),
    (incremental(("listeners", APPEND, "A://:1"), kind=BROKER, name="1"), 40, "not LIST"),
    (incremental(("no.such", SET, "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config"),
    (incremental(("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG, "Invalid value x"),
    (
        incremental(("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        ErrorCode.INVALID_REQUEST,
        "duplicate config keys",
    ),
    (
        incremental(("log.cleaner.threads", SET, "x"), kind=BROKER, name="1"),
        ErrorCode.INVALID_CONFIG,
        "Not a number of type INT",
    ),
    (legacy({"retention.ms": None}, name="gone"), 3, "does not exist"),
    (legacy({"no.such": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config"),
    (legacy({}, name="gone"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
]


@pytest.mark.parametrize(("request_", "code", "why"), REFUSED)
def test_refusals(request_: Any, code: int, why: str) -> None:
    result = handle(IMAGE, request_)
    (answer,) = result.response.responses
    assert answer.error_code == code
    assert why in answer.error_message
    assert result.records == ()


CHANGES = [
    (incremental(("retention.ms", SET, "6")), [("retention.ms", "6")]),
    (incremental(("retention.ms", SET, "5")), []),
    (incremental(("retention.ms", DELETE, None)), [("retention.ms", None)]),
    (incremental(("segment.ms", DELETE, None)), []),
    (incremental(("cleanup.policy", APPEND, "delete")), [("cleanup.policy", "compact,delete")]),
    (incremental(("cleanup.policy", APPEND, "compact")), []),
    (incremental(("cleanup.policy", SUBTRACT, "compact")), [("cleanup.policy", "")]),
    # Null, which only brokers refuse, unsets.
    (incremental(("retention.ms", SET, None)), [("retention.ms", None)]),
    (incremental(("segment.ms", SET, None)), []),
    (
        incremental(("log.cleaner.threads", SET, None), kind=BROKER, name="1"),
        [("log.cleaner.threads", None)],
    ),
    (
        legacy({"segment.ms": None, "retention.ms": None}),
        [("retention.ms", None), ("cleanup.policy", None)],
    ),
    (
        legacy({"log.cleaner.threads": None}, kind=BROKER, name="1"),
        [("log.cleaner.threads", None)],
    ),
    (legacy({"retention.ms": "6"}), [("retention.ms", "6"), ("cleanup.policy", None)]),
    (legacy({}), [("cleanup.policy", None), ("retention.ms", None)]),
    # Written again for a broker: it makes the broker load the value anew.
    (
        incremental(("log.cleaner.threads", SET, "2"), kind=BROKER, name="1"),
        [("log.cleaner.threads", "2")],
    ),
    (
        incremental(("metric.reporters", APPEND, "A,B"), kind=BROKER, name=""),
        [("metric.reporters", "A,B")],
    ),
    (
        incremental(("sasl.enabled.mechanisms", APPEND, "PLAIN"), kind=BROKER, name=""),
        [("sasl.enabled.mechanisms", "GSSAPI,PLAIN")],
    ),
    (
        incremental(("listener.name.x.anything", SET, "1"), kind=BROKER, name=""),
        [("listener.name.x.anything", "1")],
    ),
    (
        incremental(("match", SET, r"client_id=\p{L}+, client_source_port=1.*"), kind=16),
        [("match", r"client_id=\p{L}+, client_source_port=1.*")],
    ),
    (incremental(("metrics", SET, "*"), kind=16), []),
    (incremental(("interval.ms", SET, "100"), kind=16), [("interval.ms", "100")]),
    (
        incremental(("num.io.threads", SET, "9"), kind=BROKER, name="3000"),
        [("num.io.threads", "9")],
    ),
]


@pytest.mark.parametrize(("request_", "written"), CHANGES)
def test_changes(request_: Any, written: list[tuple[str, str | None]]) -> None:
    result = handle(IMAGE, request_)
    assert [one.error_code for one in result.response.responses] == [0]
    assert [(one.name, one.value) for one in result.records] == written


def test_each_operation_of_a_resource_counts_in_whatever_order_they_are_given() -> None:
    changes = [
        ("retention.ms", DELETE, None),
        ("segment.ms", SET, "7"),
        ("cleanup.policy", APPEND, "delete"),
        ("follower.replication.throttled.replicas", APPEND, "0:1"),
    ]
    written = [None, "7", "compact,delete", "0:1"]
    expected = {name: value for (name, _, _), value in zip(changes, written, strict=True)}
    for order in permutations(changes):
        result = handle(IMAGE, incremental(*order))
        assert {one.name: one.value for one in result.records} == expected
        refused = handle(IMAGE, incremental(*order, ("retention.ms", SET, "1")))
        assert refused.records == (), "as a whole or not at all"


def test_append_starts_from_the_default() -> None:
    image = image_of(topic("t", 1))
    result = handle(image, incremental(("cleanup.policy", APPEND, "compact")))
    assert [one.value for one in result.records] == ["delete,compact"]


@pytest.mark.parametrize("build", [incremental, legacy])
def test_a_resource_given_twice_and_validate_only(build: Any) -> None:
    one = (
        build(("retention.ms", SET, "6")) if build is incremental else build({"retention.ms": "6"})
    )
    one.validate_only = True
    result = handle(IMAGE, one)
    assert [answer.error_code for answer in result.response.responses] == [0]
    assert result.records == ()
    one.validate_only = False
    one.resources = [*one.resources, *one.resources]
    result = handle(IMAGE, one)
    assert [answer.error_code for answer in result.response.responses] == [42]
    assert result.records == ()


def test_a_list_cannot_grow_beyond_what_a_record_holds() -> None:
    key = "metric.reporters"
    image = image_of(set_to(BROKER, "", key, "a" * 30_000))
    request = incremental((key, APPEND, "b" * 3_000), kind=BROKER, name="")
    (answer,) = handle(image, request).response.responses
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "longer than 32767 bytes" in answer.error_message


def test_good_resources_are_altered_beside_bad_ones() -> None:
    request = incremental(("retention.ms", SET, "6"))
    bad = incremental(("retention.ms", SET, "1"), name="gone").resources
    request.resources = [*bad, *request.resources]
    result = handle(IMAGE, request)
    assert [answer.error_code for answer in result.response.responses] == [3, 0]
    assert len(result.records) == 1


@pytest.mark.parametrize(("release", "code"), [("3.6", 35), ("3.7", 0), ("3.9", 0)])
def test_client_metrics_came_with_3_7(release: str, code: int) -> None:
    request = incremental(("metrics", SET, ""), kind=CLIENT_METRICS)
    (answer,) = handle(IMAGE, request, release=release).response.responses
    assert answer.error_code == code


def test_what_topics_inherit_is_computed_once_until_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some thirty values: a storm of creations asks for them with every topic."""
    computed: list[str] = []
    effective = config_defs._effective

    def counted(server: Any, known: Any, overrides: Any) -> Any:
        computed.append(known.name)
        return effective(server, known, overrides)

    monkeypatch.setattr(config_defs, "_effective", counted)
    world = World().join(1, 2, 3)

    def told(name: str) -> dict[str, tuple[str, int]]:
        (one,) = world.ask(create(name)).topics
        return {each.name: (each.value, each.config_source) for each in one.configs}

    first = [told(f"t{number}") for number in range(20)]
    assert len(computed) == len(topic_configs(world.config.release)) == len(first[0])
    assert all(one == first[0] for one in first)
    assert first[0]["segment.bytes"] == ("1073741824", config_defs.DEFAULT_SOURCE)
    image = image_of(set_to(BROKER, "", "log.segment.bytes", "7000000"))

    def found(overrides: dict[str, str]) -> dict[str, tuple[str, int]]:
        all_of_them = effective_topic_configs(image, world.config, overrides)
        return {one.name: (one.value, one.source) for one in all_of_them}

    assert found({})["segment.bytes"] == ("7000000", config_defs.CLUSTER_SOURCE)
    own = {"segment.ms": ("9", config_defs.TOPIC_SOURCE)}
    assert found({"segment.ms": "9"}) == found({}) | own


def test_a_controllers_defaults_are_those_of_the_properties() -> None:
    of_file = {one.name: one.default for one in fields(Config) if one.default is not MISSING}
    of_file["inter_broker_listener_name"] = None  # needed by a migration alone
    own = {one.name: one.default for one in fields(ControllerConfig) if one.name in of_file}
    assert own == {name: of_file[name] for name in own}
    assert "broker_session_timeout_ms" in own
