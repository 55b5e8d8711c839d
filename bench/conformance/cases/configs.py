"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: of topics; of brokers validate_only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.conformance.asking import by_name, created, eventually, shared
from bench.conformance.case import (
    Ask,
    Level,
    NotOffered,
    Program,
    Stage,
    Where,
    case,
    code,
    holds,
    only,
    same,
)
from wire import messages as m

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC_TOPIC, DEFAULT = 1, 5
_ALTER: Final = (m.IncrementalAlterConfigsRequest, m.DescribeConfigsRequest)
_REPLACE: Final = (m.AlterConfigsRequest, m.DescribeConfigsRequest)
_MANAGER: Final = "ConfigurationControlManager, ConfigAdminManager.preprocess"
Change = tuple[str, int, str | None]


def altered(*resources: tuple[int, str, Sequence[Change]], validate_only: bool = False) -> Any:
    """An IncrementalAlterConfigs request."""
    kind = m.IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=of,
                resource_name=name,
                configs=[
                    kind.AlterableConfig(name=key, config_operation=how, value=value)
                    for key, how, value in changes
                ],
            )
            for of, name, changes in resources
        ],
        validate_only=validate_only,
    )


def replaced(
    *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False
) -> Any:
    """An AlterConfigs request."""
    kind = m.AlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=of,
                resource_name=name,
                configs=[kind.AlterableConfig(name=key, value=one) for key, one in new.items()],
            )
            for of, name, new in resources
        ],
        validate_only=validate_only,
    )


def description(of: int, name: str, keys: Sequence[str] | None = None, **more: bool) -> Any:
    """A DescribeConfigs request for one resource."""
    kind = m.DescribeConfigsRequest
    one = kind.DescribeConfigsResource(
        resource_type=of, resource_name=name, configuration_keys=keys
    )
    return kind(resources=[one], **more)


def told(message: Any) -> dict[str, Any]:
    """Configs of the one resource of an answer, by name."""
    result = only("results of DescribeConfigs", message.results)
    code("DescribeConfigs", result.error_code, 0)
    return by_name("configs of DescribeConfigs", result.configs)


def becomes(stage: Stage, name: str, key: str, value: str, source: int = DYNAMIC_TOPIC) -> Program:
    """Wait until a topic's config is shown with a value, and from where."""

    def done(message: Any) -> bool:
        one = told(message).get(key)
        return one is not None and (one.value, one.config_source) == (value, source)

    what = f"{key} of {name}, shown as {value!r} of source {source}"
    yield from eventually(what, description(TOPIC, name), done, lowest=1)


def codes(message: Any) -> list[int]:
    """Errors of the resources, in order."""
    return [one.error_code for one in message.responses]


@case(
    "DescribeConfigs shows every config of a topic, with type and default",
    sources="KIP-133, KIP-569",
    asks=(m.DescribeConfigsRequest,),
)
def describe(stage: Stage) -> Program:
    name, _ = yield from created(stage, configs={"max.message.bytes": "123456"})
    yield from becomes(stage, name, "max.message.bytes", "123456")
    asked = description(TOPIC, name, include_synonyms=True, include_documentation=True)
    found = told((yield Ask(asked, lowest=3)).message)
    kinds = {
        "cleanup.policy": (7, "delete"),
        "compression.type": (2, "producer"),
        "max.message.bytes": (3, "123456"),
        "min.insync.replicas": (3, None),
        "retention.bytes": (5, "-1"),
        "segment.ms": (5, "604800000"),
        "unclean.leader.election.enable": (1, "false"),
        "min.cleanable.dirty.ratio": (6, "0.5"),
        "flush.messages": (5, "9223372036854775807"),
    }
    for key, (kind, value) in kinds.items():
        holds(f"config {key}", key in found, "it is shown", sorted(found))
        same(f"type of {key}", found[key].config_type, kind)
        if value is not None:
            same(f"value of {key}", found[key].value, value)
        same(f"whether {key} is read-only", found[key].read_only, False)
        same(f"whether {key} is sensitive", found[key].is_sensitive, False)
        if key != "max.message.bytes":
            holds(
                f"source of {key}",
                found[key].config_source != DYNAMIC_TOPIC,
                "not the topic",
                found[key].config_source,
            )
        pairs = [(one.name, one.source) for one in found[key].synonyms]
        same(f"synonyms of {key}: each once", len(pairs), len({*pairs}))
    first = found["max.message.bytes"].synonyms
    holds("synonyms of max.message.bytes", len(first) >= 2, "its own value and the default", first)
    same(
        "the first synonym",
        (first[0].name, first[0].value, first[0].source),
        ("max.message.bytes", "123456", DYNAMIC_TOPIC),
    )


@case(
    "DescribeConfigs documents each config where that is asked for",
    level=Level.SHOULD,
    sources="KIP-569; ConfigHelper.createTopicConfigEntry",
    asks=(m.DescribeConfigsRequest,),
)
def documentation(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    asked = description(TOPIC, name, include_documentation=True)
    found = told((yield Ask(asked, lowest=3)).message)
    texts = {key: one.documentation for key, one in found.items()}
    if not any(texts.values()):
        raise NotOffered("DescribeConfigs documents nothing")
    same("configs without documentation", [key for key, one in texts.items() if not one], [])


@case(
    "DescribeConfigs leaves out synonyms and documentation that are not asked for",
    sources="KIP-226, KIP-569",
    asks=(m.DescribeConfigsRequest,),
)
def describe_less(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    found = told((yield Ask(description(TOPIC, name), lowest=3)).message)
    for key, one in found.items():
        same(f"synonyms of {key}", one.synonyms, [])
        same(f"documentation of {key}", one.documentation, None)


@case(
    "DescribeConfigs shows the configs that are named, and no others",
    sources="KIP-133",
    asks=(m.DescribeConfigsRequest,),
)
def describe_named(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    keys = ("cleanup.policy", "no.such.config", "index.interval.bytes")
    found = told((yield Ask(description(TOPIC, name, keys), lowest=1)).message)
    same("configs", set(found), {"cleanup.policy", "index.interval.bytes"})


@case(
    "DescribeConfigs: errors of a resource are its own",
    sources="ConfigHelper.describeConfigs",
    asks=(m.DescribeConfigsRequest,),
)
def describe_unknown(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    kind = m.DescribeConfigsRequest.DescribeConfigsResource
    none = stage.name()
    asked = m.DescribeConfigsRequest(
        resources=[
            kind(resource_type=TOPIC, resource_name=one, configuration_keys=None)
            for one in (none, name, "a b")
        ]
    )
    answer = (yield Ask(asked, lowest=1)).message
    found = {one.resource_name: one for one in answer.results}
    same("resources", set(found), {none, name, "a b"})
    code("DescribeConfigs of an unknown topic", found[none].error_code, 3)
    code("DescribeConfigs of a name that no topic can have", found["a b"].error_code, 17, 3)
    code("DescribeConfigs of the topic beside them", found[name].error_code, 0)
    same("configs of an unknown topic", found[none].configs, [])


@case(
    "DescribeConfigs of a broker hides sensitive values",
    sources="KIP-133; ConfigHelper.createBrokerConfigEntry",
    where=Where.BROKER,
    asks=(m.DescribeConfigsRequest,),
    brokers=1,
)
def sensitive(stage: Stage) -> Program:
    found = (yield Ask(description(BROKER, ""), lowest=1)).message
    result = only("results", found.results)
    code("DescribeConfigs of the default of brokers", result.error_code, 0)
    for broker in stage.facts.brokers:
        found = (yield Ask(description(BROKER, str(broker)), lowest=1)).message
        result = only("results", found.results)
        if result.error_code:
            continue  # a broker tells its own configs alone
        for one in result.configs:
            if "password" in one.name and "encoder" not in one.name:
                same(f"whether {one.name} is sensitive", one.is_sensitive, True)
            if one.is_sensitive:
                holds(
                    f"the value of {one.name}", one.value is None, "none", "a value, not shown here"
                )


@case(
    "DescribeConfigs of a broker: another one's, or a name that is no id, gets INVALID_REQUEST",
    sources="ConfigHelper.describeConfigs",
    where=Where.BROKER,
    asks=(m.DescribeConfigsRequest,),
    brokers=1,
)
def describe_brokers(stage: Stage) -> Program:
    for name in ("x", str(max(stage.facts.brokers) + 9_999)):
        answer = (yield Ask(description(BROKER, name), lowest=1)).message
        code(f"DescribeConfigs of broker {name!r}", only("results", answer.results).error_code, 42)


@case("IncrementalAlterConfigs sets a config, and deletes it again", sources="KIP-339", asks=_ALTER)
def set_and_delete(stage: Stage) -> Program:
    name, _ = yield from created(stage, configs={"retention.ms": "1000000"})
    values = {
        "retention.ms": "1234567",
        "max.message.bytes": "777777",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "true",
        "compression.type": "gzip",
        "message.timestamp.type": "LogAppendTime",
        "follower.replication.throttled.replicas": "*",
    }
    for key, value in values.items():
        answer = (yield Ask(altered((TOPIC, name, [(key, SET, value)])))).message
        same(f"IncrementalAlterConfigs {key}={value}", codes(answer), [0])
        yield from becomes(stage, name, key, value)
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    mine = {key: one.value for key, one in found.items() if one.config_source == DYNAMIC_TOPIC}
    same("configs of the topic's own", mine, values)
    answer = (yield Ask(altered((TOPIC, name, [("preallocate", DELETE, None)])))).message
    same("IncrementalAlterConfigs that deletes", codes(answer), [0])
    yield from becomes(stage, name, "preallocate", "false", DEFAULT)
    yield from becomes(stage, name, "max.message.bytes", "777777")


@case(
    "IncrementalAlterConfigs appends to lists and subtracts from them",
    sources="KIP-339",
    asks=_ALTER,
)
def lists(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    steps: list[tuple[int, str, str]] = [
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (APPEND, "compact", "compact"),
        (APPEND, "delete", "compact,delete"),
        (SUBTRACT, "compact", "delete"),
    ]
    for how, value, expected in steps:
        answer = (yield Ask(altered((TOPIC, name, [("cleanup.policy", how, value)])))).message
        same(
            f"IncrementalAlterConfigs of cleanup.policy, operation {how}, {value}",
            codes(answer),
            [0],
        )
        yield from becomes(stage, name, "cleanup.policy", expected)


@case(
    "IncrementalAlterConfigs: to append to what is no list gets INVALID_CONFIG",
    sources=_MANAGER,
    asks=_ALTER,
)
def no_list(stage: Stage) -> Program:
    name, _ = yield from shared(stage)
    for how in (APPEND, SUBTRACT):
        answer = (yield Ask(altered((TOPIC, name, [("retention.bytes", how, "5")])))).message
        code(f"IncrementalAlterConfigs of retention.bytes, operation {how}", codes(answer)[0], 40)


@case(
    "IncrementalAlterConfigs: values and names that cannot be get INVALID_CONFIG",
    sources=_MANAGER,
    asks=_ALTER,
)
def invalid(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    for key, value in {
        "retention.ms": "x",
        "segment.bytes": "3",
        "cleanup.policy": "shred",
        "min.insync.replicas": "0",
        "compression.type": "zip",
        "min.cleanable.dirty.ratio": "2",
        "preallocate": "perhaps",
        "no.such.config": "1",
    }.items():
        answer = (yield Ask(altered((TOPIC, name, [(key, SET, value)])))).message
        code(
            f"IncrementalAlterConfigs {key}={value}",
            only("results", answer.responses).error_code,
            40,
        )
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    mine = {key for key, one in found.items() if one.config_source == DYNAMIC_TOPIC}
    same("configs of the topic's own", mine, set())


@case(
    "IncrementalAlterConfigs: a resource with one bad config changes nothing of it",
    sources=_MANAGER,
    asks=_ALTER,
)
def atomic(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    changes: list[Change] = [("max.message.bytes", SET, "55555"), ("retention.ms", SET, "x")]
    answer = (yield Ask(altered((TOPIC, name, changes)))).message
    code(
        "IncrementalAlterConfigs with one bad config",
        only("results", answer.responses).error_code,
        40,
    )
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    holds("max.message.bytes", found["max.message.bytes"].value != "55555", "unchanged", "55555")


@case("IncrementalAlterConfigs: an error of one resource is its own", sources=_MANAGER, asks=_ALTER)
def partial(stage: Stage) -> Program:
    good, none = (yield from created(stage))[0], stage.name()
    bad, _ = yield from created(stage)
    asked = altered(
        (TOPIC, none, [("retention.ms", SET, "5000000")]),
        (TOPIC, good, [("retention.ms", SET, "5000000")]),
        (TOPIC, bad, [("retention.ms", SET, "y")]),
    )
    answer = (yield Ask(asked)).message
    found = {one.resource_name: one.error_code for one in answer.responses}
    same("resources", set(found), {none, good, bad})
    code("of an unknown topic", found[none], 3)
    code("of a bad value", found[bad], 40)
    code("of the one beside them", found[good], 0)
    yield from becomes(stage, good, "retention.ms", "5000000")


@case(
    "IncrementalAlterConfigs: a resource twice, or a config twice, gets INVALID_REQUEST",
    sources=_MANAGER,
    asks=_ALTER,
)
def twice(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    one: list[Change] = [("retention.ms", SET, "5000000")]
    asked = altered((TOPIC, name, one), (TOPIC, name, [("segment.ms", SET, "5000000")]))
    answer = (yield Ask(asked)).message
    holds("results", answer.responses, "at least one", answer.responses)
    for result in answer.responses:
        code("IncrementalAlterConfigs of a resource twice", result.error_code, 42)
    if stage.here is Where.BROKER:
        answer = (yield Ask(altered((TOPIC, name, [*one, ("retention.ms", DELETE, None)])))).message
        code("IncrementalAlterConfigs of a config twice", codes(answer)[0], 42)
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    mine = {key for key, each in found.items() if each.config_source == DYNAMIC_TOPIC}
    same("configs of the topic's own", mine, set())


@case(
    "IncrementalAlterConfigs: validate_only judges and changes nothing",
    sources="KIP-339",
    asks=_ALTER,
)
def validate_only(stage: Stage) -> Program:
    name, _ = yield from created(stage)
    for value, expected in (("5000000", 0), ("x", 40)):
        asked = altered((TOPIC, name, [("retention.ms", SET, value)]), validate_only=True)
        code(f"retention.ms={value}, validate_only", codes((yield Ask(asked)).message)[0], expected)
    answer = (yield Ask(altered((TOPIC, name, [("segment.ms", SET, "6000000")])))).message
    same("IncrementalAlterConfigs afterwards", codes(answer), [0])
    yield from becomes(stage, name, "segment.ms", "6000000")
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    holds(
        "retention.ms",
        found["retention.ms"].config_source != DYNAMIC_TOPIC,
        "unchanged",
        found["retention.ms"],
    )


@case(
    "a config without a value is refused, and nothing is set",
    sources="ConfigAdminManager.preprocess",
    where=Where.BROKER,
    asks=(*_ALTER, m.AlterConfigsRequest),
)
def no_value(stage: Stage) -> Program:
    name, _ = yield from created(stage, configs={"segment.ms": "2000000"})
    for how in (SET, APPEND, SUBTRACT):
        asked = altered((TOPIC, name, [("cleanup.policy", how, None)]))
        message = (yield Ask(asked)).message
        code(f"IncrementalAlterConfigs, operation {how} of null", codes(message)[0], 42)
    message = (yield Ask(replaced((TOPIC, name, {"retention.ms": None})))).message
    code("AlterConfigs with null", codes(message)[0], 42)
    yield from becomes(stage, name, "segment.ms", "2000000")


@case("AlterConfigs replaces all configs of a topic", sources="KIP-133", asks=_REPLACE)
def replace(stage: Stage) -> Program:
    name, _ = yield from created(
        stage, configs={"retention.ms": "1000000", "segment.ms": "2000000"}
    )
    answer = (
        yield Ask(replaced((TOPIC, name, {"segment.ms": "3000000", "max.message.bytes": "9999"})))
    ).message
    same("AlterConfigs", codes(answer), [0])
    yield from becomes(stage, name, "segment.ms", "3000000")
    yield from becomes(stage, name, "max.message.bytes", "9999")
    found = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    mine = {key for key, one in found.items() if one.config_source == DYNAMIC_TOPIC}
    same("configs of the topic's own", mine, {"segment.ms", "max.message.bytes"})
    answer = (yield Ask(replaced((TOPIC, name, {})))).message
    same("AlterConfigs with none", codes(answer), [0])

    def bare(message: Any) -> bool:
        return all(one.config_source != DYNAMIC_TOPIC for one in told(message).values())

    yield from eventually("configs of the topic: none", description(TOPIC, name), bare, lowest=1)


@case(
    "AlterConfigs: bad values and unknown topics are refused, each by itself",
    sources=_MANAGER,
    asks=_REPLACE,
)
def replace_badly(stage: Stage) -> Program:
    name, none = (yield from created(stage, configs={"segment.ms": "2000000"}))[0], stage.name()
    asked = replaced((TOPIC, none, {"segment.ms": "5"}), (TOPIC, name, {"retention.ms": "x"}))
    found = {one.resource_name: one.error_code for one in (yield Ask(asked)).message.responses}
    same("resources", set(found), {none, name})
    code("AlterConfigs of an unknown topic", found[none], 3)
    code("AlterConfigs with a bad value", found[name], 40)
    answer = (
        yield Ask(replaced((TOPIC, name, {"retention.ms": "7000000"}), validate_only=True))
    ).message
    same("AlterConfigs, validate_only", codes(answer), [0])
    yield from becomes(stage, name, "segment.ms", "2000000")
    shown = told((yield Ask(description(TOPIC, name), lowest=1)).message)
    holds(
        "retention.ms",
        shown["retention.ms"].config_source != DYNAMIC_TOPIC,
        "unchanged",
        shown["retention.ms"].value,
    )


@case(
    "configs of brokers are judged: unknown ones are kept, static and wrong ones refused",
    sources="ConfigAdminManager.validateBrokerConfigChange, DynamicBrokerConfig",
    where=Where.BROKER,
    asks=(m.IncrementalAlterConfigsRequest,),
    brokers=1,
    level=Level.SHOULD,
)
def of_brokers(stage: Stage) -> Program:
    for key, value, expected in (
        ("log.retention.ms", "86400000", (0,)),
        ("background.threads", "eleven", (42, 40)),
        ("node.id", "5", (42, 40)),
        ("log.cleaner.threads", "x", (42, 40)),
    ):
        asked = altered((BROKER, "", [(key, SET, value)]), validate_only=True)
        code(
            f"{key}={value} of all brokers, validate_only",
            codes((yield Ask(asked)).message)[0],
            *expected,
        )


@case(
    "a resource of a type that has no configs gets INVALID_REQUEST",
    sources=_MANAGER,
    asks=(m.IncrementalAlterConfigsRequest,),
    where=Where.BROKER,
    brokers=1,
)
def other_types(stage: Stage) -> Program:
    answer = (yield Ask(altered((99, "x", [("a", SET, "b")]), validate_only=True))).message
    code("IncrementalAlterConfigs of resource type 99", codes(answer)[0], 42)
