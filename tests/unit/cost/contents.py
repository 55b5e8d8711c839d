"""What a request may hold: the same form filled in each way that has cost more than its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from emulator.controller.tables.token_index import hmac_of
from tests.kit import requests
from tests.unit.cost.cluster import WIDE, topic_id
from wire import messages as m
from wire.schema import ZERO_UUID, Field, Layout

MANY = 800
LONG = "x" * 20_000
RUNS: Final = (
    *(one * (20_000 // len(one)) + "!" for one in ("x", " ", "1", ".", "a,", "a=")),
    "x" * 18 + "!",
)
"""An expression that tries each end of a run anew takes seconds for one of them, and for the last
one if it tries each way to divide it."""
STYLES: Final = ("known", "unknown", "ids", "equal", "inner", "long")
"""Many entries that exist, that do not, some of each by their ids, and one many times; one with
many inside; few long ones."""

_TEXTS: Final = {
    "host": "*",
    "host_filter": None,
    "entity_type": "user",
    "principal_type": "User",
    "key": "producer_byte_rate",
    "value": "1000",
    "match": "u1",
    "client_software_name": "x",
    "client_software_version": "1",
    "mechanism": "PLAIN",
    "cluster_id": "another",
    "resource_name_filter": None,
    "log_dir": "logs",
    "path": "logs",
}
_USERS: Final = frozenset({"principal", "principal_filter"})
_NUMBERS: Final = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 1,
    "pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "upgrade_type": 1,
    "mechanism": 1,
    "iterations": 4_096,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "broker_id": 1,
    "broker_epoch": 101,
    "timeout_ms": 60_000,
    "response_partition_limit": 2_000,
    "timestamp": -1,
    "current_leader_epoch": -1,
    "max_lifetime_ms": -1,
    "endpoint_type": 2,
    "acks": 1,
    "config_operation": 0,
    "new_isr": 1,
    "replicas": 1,
    "broker_ids": 1,
}
NEW: Final = frozenset({"CreateTopicsRequest", "BrokerRegistrationRequest"})


@dataclass
class Filler:
    """Fills a request; ``first``: numbers of entities that no earlier request has named."""

    style: str
    first: int
    many: int = MANY
    new: bool = False

    def message(self, form: Layout) -> Any:
        """Filled; None: nothing in it is named by an id or by a name."""
        if self.style == "ids" and not any(_either(one.group) for one in form.fields if one.group):
            return None
        self.new = form.cls.__name__ in NEW
        return self._struct(form, 0, self.first)

    def _struct(self, form: Layout, depth: int, number: int) -> Any:
        values = {entry.name: self._field(entry, depth, number, form) for entry in form.fields}
        if form.cls is m.BrokerRegistrationRequest:
            values["broker_id"] = 900
        if form.cls is m.UnregisterBrokerRequest:
            values["broker_id"] = 999
        if _either(form):
            values |= {"name": None} if self.style == "ids" else {"topic_id": ZERO_UUID}
        return form.cls(**values)

    def _field(self, entry: Field, depth: int, number: int, form: Layout) -> Any:
        if entry.array:
            items = [self._one(entry, depth + 1, at, form) for at in self._numbers(depth, number)]
            if entry.name == "assignments" and self.style != "inner":
                items = []
            return items if entry.group is not None else tuple(items)
        return self._one(entry, depth, number, form)

    def _numbers(self, depth: int, number: int) -> Iterator[int]:
        if depth != (self.style == "inner"):
            yield number
            return
        count = self.many // 50 if self.style == "long" else self.many
        for at in range(count):
            yield number if self.style == "equal" else number + at

    def _one(self, entry: Field, depth: int, number: int, form: Layout) -> Any:
        if entry.group is not None:
            return self._struct(entry.group, depth, number)
        name, kind = entry.name, entry.kind
        if kind == "string":
            return self._text(name, number, form, entry.nullable)
        if kind == "uuid":
            unknown = self.style == "unknown" or (self.style == "ids" and number % 2 == 0)
            return b"\xee" * 8 + number.to_bytes(8, "big") if unknown else topic_id(number)
        if name == "hmac" and self.style == "known":
            return hmac_of("secret", f"token{number}")
        if kind in {"bytes", "records"}:
            return b"h" * 64
        if kind == "bool":
            return False
        if kind == "float64":
            return 1_000.0 + number
        if name in {"replicas", "broker_ids", "new_isr"}:
            return number % 20
        if name in _NUMBERS:
            return _NUMBERS[name]
        indexes = {"partition_index", "partition_indexes", "partitions", "index", "partition"}
        return number - self.first if name in indexes and self.style == "inner" else 0

    def _text(self, name: str, number: int, form: Layout, nullable: bool) -> str | None:
        if "Config" in form.cls.__name__ and name in {"name", "configuration_keys"}:
            return "retention.ms" if self.style != "inner" else f"c{number}"
        long = self.style == "long" and (number % 2 == 1 or name.startswith("client_software"))
        if name in _TEXTS and not long:
            found = _TEXTS[name]
            return found if found is not None or nullable else "a"
        known = not (self.style == "unknown" or self.new)
        user = name in _USERS
        letter = "u" if user or name in {"user", "principal_name", "entity_name"} else "t"
        if form.cls.__name__.startswith("Scram") or form.cls is m.UpdateFeaturesRequest:
            letter = "u"
        text = f"{letter if known else 'n'}{number}"
        if self.style == "inner" and letter == "t" and known and name != "configuration_keys":
            text = WIDE
        if self.style == "long":
            text = f"{text}-{RUNS[number % len(RUNS)]}"
        return f"User:{text}" if user else text


def _either(form: Layout) -> bool:
    """Whether something has a name or an id."""
    nullable = {one.name: one.nullable for one in form.fields}
    return nullable.get("name", False) and "topic_id" in nullable


def special() -> Iterator[tuple[str, Any]]:
    """What no form tells: filters, expressions, and names that are found by a search."""
    filters = m.DeleteAclsRequest.DeleteAclsFilter
    wide = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }

    def matching(name: str | None, principal: str | None, pattern: int = 1) -> Any:
        values = {**wide, "resource_name_filter": name, "principal_filter": principal}
        return filters(**{**values, "pattern_type_filter": pattern})

    yield (
        "of nobody",
        m.DeleteAclsRequest(filters=[matching(None, f"User:n{n}") for n in range(MANY)]),
    )
    yield (
        "what guards",
        m.DeleteAclsRequest(filters=[matching(f"n{n}", "User:n", 2) for n in range(MANY)]),
    )
    one = {"resource_name_filter": None, "principal_filter": "User:n"}
    yield "of nobody", m.DescribeAclsRequest(**{**wide, **one})
    kinds = m.UpdateFeaturesRequest
    yield (
        "of no broker",
        kinds(
            feature_updates=[
                kinds.FeatureUpdateKey(feature=f"n{n}", max_version_level=0, upgrade_type=1)
                for n in range(MANY)
            ]
        ),
    )
    owners = m.DescribeDelegationTokenRequest
    yield (
        "of many owners",
        owners(
            owners=[
                owners.DescribeDelegationTokenOwner(principal_type="User", principal_name=f"n{n}")
                for n in range(MANY)
            ]
        ),
    )
    for why, kind, key, value in (
        ("patterns", 16, "match", ",".join(["client_id=(a*)*b"] * 500)),
        ("one pattern", 16, "match", "client_id=" + "(a|a)*" * 1_000),
        ("a nested pattern", 16, "match", "client_id=" + "(" * 2_000 + "a" + ")*" * 2_000),
        ("a list", 2, "leader.replication.throttled.replicas", ",".join(["0:1"] * 5_000)),
        ("policies", 2, "cleanup.policy", ",".join(["compact"] * 2_000)),
        ("a number", 2, "retention.ms", "9" * 20_000),
    ):
        yield why, requests.alter_config(kind, key, value, "t1", validate_only=True)
    yield "a long name", requests.reassign(LONG, None, *range(MANY))
    yield "a long name", requests.elect(LONG, *range(MANY))
