"""AlterClientQuotas and DescribeClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import eventually, reads
from bench.conformance.case import Ask, Level, Program, Stage, Where, case, code, holds, only, same
from wire import messages as m

_ASKS: Final = (m.AlterClientQuotasRequest,)
_MANAGER: Final = "KIP-546; ClientQuotaControlManager"
EXACT, DEFAULT, ANY = 0, 1, 2
Parts = dict[str, str | None]


def entry(parts: Parts, ops: dict[str, float | None]) -> Any:
    """One entity with its changes; None removes."""
    kind = m.AlterClientQuotasRequest
    return kind.EntryData(
        entity=[kind.EntityData(entity_type=one, entity_name=name) for one, name in parts.items()],
        ops=[
            kind.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops.items()
        ],
    )


def alteration(*entries: Any, validate_only: bool = False) -> Any:
    """An AlterClientQuotas request."""
    return m.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def question(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """A DescribeClientQuotas request."""
    kind = m.DescribeClientQuotasRequest
    return kind(
        components=[
            kind.ComponentData(entity_type=one, match_type=how, match=match)
            for one, how, match in components
        ],
        strict=strict,
    )


def listed(message: Any) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    """Entity -> quotas, after a look at the error."""
    code("DescribeClientQuotas", message.error_code, 0)
    parts = [
        sorted((each.entity_type, each.entity_name or "") for each in one.entity)
        for one in message.entries or []
    ]
    same("entities: each once", len({str(one) for one in parts}), len(parts))
    for one in message.entries or []:
        keys = sorted(value.key for value in one.values)
        same("keys of an entity: each once", keys, sorted({*keys}))
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in one.entity)): {
            value.key: value.value for value in one.values
        }
        for one in message.entries or []
    }


def shown(stage: Stage, parts: Parts, expected: dict[str, float]) -> Program:
    """Wait until an entity has just these quotas; nothing if no broker is named."""
    if not reads(stage):
        return
    asked = question(*((one, EXACT, name) for one, name in parts.items()), strict=True)
    entity = tuple(sorted(parts.items()))

    def done(message: Any) -> bool:
        return listed(message).get(entity, {}) == expected

    yield from eventually(f"quotas of {parts}: {expected}", asked, done, at=Where.BROKER)


def errors(message: Any) -> list[int]:
    """Of the entries, in order."""
    return [one.error_code for one in message.entries]


@case(
    "AlterClientQuotas sets, changes and removes quotas of each kind of entity",
    sources=_MANAGER,
    asks=_ASKS,
)
def entities(stage: Stage) -> Program:
    name = stage.name()
    for parts in ({"user": name}, {"client-id": name}, {"user": name, "client-id": name}):
        chosen = {"producer_byte_rate": 1_048_576.0, "request_percentage": 12.5}
        answer = (yield Ask(alteration(entry(dict(parts), dict(chosen))))).message
        result = only("results", answer.entries)
        code(f"AlterClientQuotas of {parts}", result.error_code, 0)
        got = {one.entity_type: one.entity_name for one in result.entity}
        same("the entity", got, parts)
        yield from shown(stage, dict(parts), dict(chosen))
        change: dict[str, float | None] = {
            "producer_byte_rate": 2_000.0,
            "request_percentage": None,
            "consumer_byte_rate": 3_000.0,
        }
        same("errors", errors((yield Ask(alteration(entry(dict(parts), change)))).message), [0])
        yield from shown(
            stage, dict(parts), {"producer_byte_rate": 2_000.0, "consumer_byte_rate": 3_000.0}
        )
        gone: dict[str, float | None] = {"producer_byte_rate": None, "consumer_byte_rate": None}
        same("errors", errors((yield Ask(alteration(entry(dict(parts), gone)))).message), [0])
        yield from shown(stage, dict(parts), {})


@case(
    "AlterClientQuotas: a quota of an ip is connection_creation_rate",
    sources="KIP-612",
    asks=_ASKS,
    level=Level.SHOULD,
)
def of_an_ip(stage: Stage) -> Program:
    for parts, key, expected in (
        ({"ip": "198.51.100.7"}, "connection_creation_rate", 0),
        ({"ip": "198.51.100.7"}, "producer_byte_rate", 42),
        ({"user": stage.name()}, "connection_creation_rate", 42),
    ):
        asked = alteration(entry(dict(parts), {key: 1_000.0}), validate_only=True)
        code(f"{key} of {parts}, validate_only", errors((yield Ask(asked)).message)[0], expected)


@case(
    "AlterClientQuotas: entities and keys that cannot be get INVALID_REQUEST",
    sources=_MANAGER,
    asks=_ASKS,
)
def invalid(stage: Stage) -> Program:
    name = stage.name()
    wrong: list[tuple[str, Parts, dict[str, float | None]]] = [
        ("an unknown type of entity", {"planet": name}, {"producer_byte_rate": 1_000.0}),
        ("no entity", {}, {"producer_byte_rate": 1_000.0}),
        ("an unknown key", {"user": name}, {"beans": 1.0}),
        ("an ip beside a user", {"user": name, "ip": "198.51.100.7"}, {"producer_byte_rate": 1.0}),
        ("half a byte", {"user": name}, {"producer_byte_rate": 1.5}),
    ]
    for what, parts, ops in wrong:
        answer = (yield Ask(alteration(entry(parts, ops)))).message
        code(f"AlterClientQuotas of {what}", errors(answer)[0], 42)
    yield from shown(stage, {"user": name}, {})


@case(
    "AlterClientQuotas: a limit that is not above 0 gets INVALID_REQUEST",
    sources=f"{_MANAGER}.validateQuotaKeyValue",
    asks=_ASKS,
    kraft=True,  # ZkAdminManager takes it
    since="3.5",
)
def not_positive(stage: Stage) -> Program:
    name = stage.name()
    for key in ("producer_byte_rate", "request_percentage", "controller_mutation_rate"):
        for value in (0.0, -1.0):
            answer = (yield Ask(alteration(entry({"user": name}, {key: value})))).message
            code(f"AlterClientQuotas of {key}={value:g}", errors(answer)[0], 42)
    yield from shown(stage, {"user": name}, {})


@case("AlterClientQuotas: an error of one entity is its own", sources=_MANAGER, asks=_ASKS)
def partial(stage: Stage) -> Program:
    good, bad = stage.name(), stage.name()
    asked = alteration(
        entry({"user": bad}, {"beans": 1.0}),
        entry({"user": good}, {"controller_mutation_rate": 0.5}),
    )
    found = {
        one.entity[0].entity_name: one.error_code for one in (yield Ask(asked)).message.entries
    }
    same("results", found, {bad: 42, good: 0})
    yield from shown(stage, {"user": good}, {"controller_mutation_rate": 0.5})


@case(
    "AlterClientQuotas: validate_only changes nothing; to remove what is not there is no error",
    sources=_MANAGER,
    asks=_ASKS,
)
def validate_only(stage: Stage) -> Program:
    name = stage.name()
    for ops, expected in (({"producer_byte_rate": 1_000.0}, 0), ({"beans": 1.0}, 42)):
        asked = alteration(entry({"user": name}, dict(ops)), validate_only=True)
        code(f"{ops}, validate_only", errors((yield Ask(asked)).message)[0], expected)
    gone = alteration(entry({"user": name}, {"consumer_byte_rate": None}))
    same("errors", errors((yield Ask(gone)).message), [0])
    yield from shown(stage, {"user": name}, {})


@case(
    "DescribeClientQuotas matches exactly, by default and by any; strictly or not",
    sources="KIP-546; ClientQuotaCache, ClientQuotasImage.describe",
    where=Where.BROKER,
    asks=(m.AlterClientQuotasRequest, m.DescribeClientQuotasRequest),
)
def matches(stage: Stage) -> Program:
    user, client = stage.name("u"), stage.name("c")
    both: Parts = {"user": user, "client-id": client}
    for parts, rate in (
        ({"user": user}, 1_000.0),
        (both, 2_000.0),
        ({"client-id": client}, 3_000.0),
    ):
        asked = alteration(entry(dict(parts), {"producer_byte_rate": rate}))
        same("errors", errors((yield Ask(asked)).message), [0])
        yield from shown(stage, dict(parts), {"producer_byte_rate": rate})
    alone, pair, other = (("user", user),), tuple(sorted(both.items())), (("client-id", client),)
    mine = {alone, pair, other}
    for components, strict, expected in (
        ([("user", EXACT, user)], False, {alone, pair}),
        ([("user", EXACT, user)], True, {alone}),
        ([("client-id", EXACT, client)], False, {pair, other}),
        ([("client-id", EXACT, client)], True, {other}),
        ([("user", EXACT, user), ("client-id", ANY, None)], True, {pair}),
        ([("user", ANY, None)], True, {alone}),
        ([("user", ANY, None)], False, {alone, pair}),
        ([("user", DEFAULT, None)], False, set()),
        ([], False, mine),
    ):
        found = listed((yield Ask(question(*components, strict=strict))).message)
        same(f"entities by {components}, strict={strict}", {*found} & mine, expected)


@case(
    "DescribeClientQuotas: questions that cannot be get INVALID_REQUEST",
    sources="ClientQuotasImage.describe",
    where=Where.BROKER,
    asks=(m.DescribeClientQuotasRequest,),
)
def bad_questions(stage: Stage) -> Program:
    for what, components in (
        ("an empty type", [("", EXACT, "x")]),
        ("a type twice", [("user", EXACT, "x"), ("user", EXACT, "y")]),
        ("an ip beside a user", [("ip", ANY, None), ("user", ANY, None)]),
        ("an exact match of nothing", [("user", EXACT, None)]),
        ("an unknown way to match", [("user", 9, None)]),
    ):
        answer = (yield Ask(question(*components))).message
        # ZkAdminManager.describeClientQuotas does not catch what it meets in a null.
        allowed = {42, 35, -1} if stage.facts.zookeeper else {42, 35}
        holds(
            f"DescribeClientQuotas by {what}",
            answer.error_code in allowed,
            "INVALID_REQUEST",
            answer,
        )
