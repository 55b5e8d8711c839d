"""CreateAcls, DeleteAcls, DescribeAcls: codes, filters, and what is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.controller.rules.authorizer import StandardAuthorizer, guards
from emulator.controller.tables import acl_index
from emulator.controller.tables.acl_index import AclFilter, AclIndex
from emulator.metadata.acls import Acl
from emulator.metadata.pmap import PMap
from emulator.seam import whole
from emulator.znodes.acls import AccessControlEntries
from emulator.zookeeper.jute import FRAME_BYTES_MAX
from tests.kit.laws import examples
from tests.unit.controller.test_authorizer import acl, acls_of_any_kind, image_of
from tests.unit.controller.test_storable import sizes
from tests.unit.controller.world import World, handle
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

AUTHORIZER = StandardAuthorizer(frozenset({"User:ANONYMOUS"}))
Creation = m.CreateAclsRequest.AclCreation
Filter = m.DeleteAclsRequest.DeleteAclsFilter


def creation(text: str, **fields: Any) -> Creation:
    """An entry to create, spelt as in ``test_authorizer.acl``."""
    one = acl(text)
    values: dict[str, Any] = {
        "resource_type": one.resource.resource_type,
        "resource_name": one.resource.name,
        "resource_pattern_type": one.resource.pattern_type,
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation,
        "permission_type": one.permission,
    }
    return Creation(**(values | fields))


def anything(**fields: Any) -> dict[str, Any]:
    """A filter that matches all, but for what is told."""
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        **fields,
    }


def world_with(*acls: str, **fields: Any) -> World:
    """A controller that enforces ACLs, and has these."""
    world = World(authorizer=AUTHORIZER, **fields)
    if acls:
        request = m.CreateAclsRequest(creations=[creation(text) for text in acls])
        assert {one.error_code for one in world.ask(request).results} == {0}
    return world


def held(world: World) -> set[Acl]:
    return set(world.tip.acls.values())


def test_what_is_created_is_described_and_deleted() -> None:
    texts = (
        "allow READ TOPIC:t User:a",
        "deny ALL TOPIC:t User:b 10.0.0.1",
        "allow ALL GROUP:g~ User:a",
    )
    world = world_with(*texts)
    assert held(world) == {acl(text) for text in texts}
    found = world.ask(m.DescribeAclsRequest(**anything()))
    assert (found.error_code, found.error_message) == (0, "")
    told = {
        (one.resource_type, one.pattern_type, one.resource_name, len(one.acls))
        for one in found.resources
    }
    assert told == {(2, 3, "t", 2), (3, 4, "g", 1)}
    answer = world.ask(
        m.DeleteAclsRequest(
            filters=[
                Filter(**anything(resource_type_filter=2)),
                Filter(**anything(principal_filter="User:a")),
            ]
        )
    )
    assert [
        sorted((one.resource_name, one.principal) for one in each.matching_acls)
        for each in answer.filter_results
    ] == [[("t", "User:a"), ("t", "User:b")], [("g", "User:a"), ("t", "User:a")]]
    assert {each.error_code for each in answer.filter_results} == {0}
    assert held(world) == set()
    assert world.ask(m.DescribeAclsRequest(**anything())).resources == []
    assert not world.tip.acls_by_resource


def test_an_entry_that_is_there_succeeds_without_a_record() -> None:
    world = world_with("allow READ TOPIC:t User:a")
    offset = world.log.log_end_offset
    same = creation("allow READ TOPIC:t User:a")
    other = creation("allow READ TOPIC:t User:b")
    answer = world.ask(m.CreateAclsRequest(creations=[same, other, other, same]))
    assert [(one.error_code, one.error_message) for one in answer.results] == [(0, "")] * 4
    records = [record for record, _ in world.records_since(offset)]
    assert [(record.principal, type(record)) for record in records] == [
        ("User:b", r.AccessControlEntryRecord)
    ]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ({"resource_name": "", "resource_type": 9}, "Invalid empty resource name"),
    ({"resource_type": 1, "operation": 1}, "Invalid resourceType ANY"),
    ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": 8}, "Invalid resourceType UNKNOWN"),
    ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
    ({"resource_pattern_type": 5}, "Invalid patternType UNKNOWN"),
    ({"operation": 1}, "Invalid operation ANY"),
    ({"operation": 15}, "Invalid operation UNKNOWN"),
    ({"permission_type": 1}, "Invalid permissionType ANY"),
    ({"permission_type": -1}, "Invalid permissionType UNKNOWN"),
    ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present"),
]


@pytest.mark.parametrize(("fields", "why"), BAD)
def test_what_cannot_be_an_entry(fields: dict[str, Any], why: str) -> None:
    world = world_with()
    good = creation("allow READ TOPIC:t User:a")
    bad = creation("allow READ TOPIC:t User:b", **fields)
    answer = world.ask(m.CreateAclsRequest(creations=[bad, good]))
    assert [one.error_code for one in answer.results] == [ErrorCode.INVALID_REQUEST, 0]
    assert why in answer.results[0].error_message
    assert held(world) == {acl("allow READ TOPIC:t User:a")}


def test_the_cluster_has_one_name() -> None:
    assert len(held(world_with("allow ALTER CLUSTER:kafka-cluster User:a"))) == 1


@pytest.mark.parametrize("name", ["a/b", "..", "a\x00"])
def test_a_name_zookeeper_cannot_hold_is_refused_as_long_as_it_must(name: str) -> None:
    """Kafka takes it, never writes it, and hangs at its next failover."""
    entry = creation("allow READ TOPIC:t User:a", resource_name=name)
    request = m.CreateAclsRequest(creations=[entry])
    migrating = world_with(migration_enabled=True, znodes=sizes())
    done = [r.ZkMigrationStateRecord(zk_migration_state=1)]
    migrating.controller.append(done, migrating.now_ms)
    migrating.commit()
    (answer,) = migrating.ask(request).results
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot be the name of a znode" in answer.error_message
    final = [r.ZkMigrationStateRecord(zk_migration_state=3)]
    migrating.controller.append(final, migrating.now_ms)
    migrating.commit()
    assert [one.error_code for one in migrating.ask(request).results] == [0]
    assert [one.error_code for one in world_with().ask(request).results] == [0]


def test_without_an_authorizer_there_are_no_acls_to_manage() -> None:
    world = World()
    two = [creation("allow READ TOPIC:t User:a")] * 2
    created = world.ask(m.CreateAclsRequest(creations=two)).results
    deleted = world.ask(m.DeleteAclsRequest(filters=[Filter(**anything())] * 2)).filter_results
    described = world.ask(m.DescribeAclsRequest(**anything()))
    for answers, text in (
        (created, "No Authorizer is configured."),
        (deleted, "No Authorizer is configured."),
        ([described] * 2, "No Authorizer is configured on the broker"),
    ):
        assert [(one.error_code, one.error_message) for one in answers] == [
            (ErrorCode.SECURITY_DISABLED, text)
        ] * 2


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"resource_type_filter": 0}, "Unknown patternFilter."),
    ({"resource_type_filter": 8}, "Unknown patternFilter."),
    ({"pattern_type_filter": 0, "operation": 0}, "Unknown patternFilter."),
    ({"operation": 15}, "Unknown entryFilter."),
    ({"permission_type": 0}, "Unknown entryFilter."),
]


@pytest.mark.parametrize(("fields", "why"), UNKNOWN)
def test_filters_that_mean_nothing(fields: dict[str, Any], why: str) -> None:
    world = world_with("allow READ TOPIC:t User:a")
    described = world.ask(m.DescribeAclsRequest(**anything(**fields)))
    two = [Filter(**anything(**fields)), Filter(**anything(resource_type_filter=3))]
    deleted = world.ask(m.DeleteAclsRequest(filters=two)).filter_results
    assert (described.error_code, described.error_message) == (ErrorCode.INVALID_REQUEST, why)
    assert (deleted[0].error_code, deleted[0].error_message) == (ErrorCode.INVALID_REQUEST, why)
    assert (deleted[1].error_code, deleted[1].error_message) == (0, None)
    assert len(held(world)) == 1


def test_more_than_fits_one_batch_is_refused_whole() -> None:
    world = world_with()
    many = [creation("allow READ TOPIC:t User:a", principal=f"User:{n}") for n in range(10_001)]
    results = world.ask(m.CreateAclsRequest(creations=many)).results
    assert {one.error_code for one in results} == {ErrorCode.POLICY_VIOLATION}
    assert len(results) == len(many)
    assert held(world) == set()


def test_filters_that_name_more_than_fits_one_batch_are_refused_whole() -> None:
    """Each counts for itself, as each is answered with all that it matches."""
    world = world_with(*(f"allow READ TOPIC:t{n} User:a" for n in range(20)))
    many = m.DeleteAclsRequest(filters=[Filter(**anything())] * 501)
    answers = world.ask(many).filter_results
    assert {one.error_code for one in answers} == {ErrorCode.POLICY_VIOLATION}
    assert not any(one.matching_acls for one in answers)
    assert len(held(world)) == 20
    world.ask(m.DeleteAclsRequest(filters=[Filter(**anything())] * 500))
    assert held(world) == set()


MATCHING = [
    # name, pattern type -> what is found of: t, t*, tt literal; t~, tt~, *
    ({"resource_name_filter": "t", "pattern_type_filter": 3}, {"t"}),
    ({"resource_name_filter": "t", "pattern_type_filter": 4}, {"t~"}),
    ({"resource_name_filter": "t", "pattern_type_filter": 1}, {"t", "t~"}),
    ({"resource_name_filter": "t", "pattern_type_filter": 2}, {"t", "t~", "*"}),
    ({"resource_name_filter": "ttt", "pattern_type_filter": 2}, {"t~", "tt~", "*"}),
    ({"resource_name_filter": "*", "pattern_type_filter": 3}, {"*"}),
    ({"pattern_type_filter": 3}, {"t", "tt", "*"}),
    ({"pattern_type_filter": 4}, {"t~", "tt~"}),
    ({"pattern_type_filter": 2}, {"t", "tt", "*", "t~", "tt~"}),
    ({"resource_type_filter": 3}, set()),
    ({"principal_filter": "User:b"}, set()),
    ({"host_filter": "10.0.0.1"}, set()),
    ({"host_filter": "*"}, {"t", "tt", "*", "t~", "tt~"}),
    ({"operation": 2}, set()),
    ({"permission_type": 2}, set()),
    ({"permission_type": 3, "operation": 3}, {"t", "tt", "*", "t~", "tt~"}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "names"), MATCHING)
def test_what_a_filter_means(fields: dict[str, Any], names: set[str]) -> None:
    texts = [f"allow READ TOPIC:{name} User:a" for name in ("t", "tt", "*", "t~", "tt~")]
    found = world_with(*texts).ask(m.DescribeAclsRequest(**anything(**fields)))
    told = {one.resource_name + "~" * (one.pattern_type == 4) for one in found.resources}
    assert told == names


def plainly(acls: list[Acl], wanted: AclFilter) -> list[Acl]:
    """What a filter means, as KIP-290 tells it, entry by entry."""

    def named(one: Acl) -> bool:
        kind, pattern, name = one.resource
        if wanted.resource_type not in {1, kind}:
            return False
        if wanted.pattern_type != 2 or wanted.name is None:
            return wanted.pattern_type in {1, 2, pattern} and wanted.name in {None, name}
        return wanted.name.startswith(name) if pattern == 4 else name in {wanted.name, "*"}

    return [
        one
        for one in acls
        if named(one)
        and wanted.principal in {None, one.principal}
        and wanted.host in {None, one.host}
        and wanted.operation in {1, one.operation}
        and wanted.permission in {1, one.permission}
    ]


filters = st.builds(
    AclFilter,
    st.sampled_from([1, 2, 2, 3, 4]),
    st.none() | st.sampled_from(["a", "ab", "aba", "b", "*", ""]),
    st.sampled_from([1, 2, 3, 4]),
    st.none() | st.sampled_from(["User:a", "User:*"]),
    st.none() | st.sampled_from(["*", "127.0.0.1"]),
    st.sampled_from([1, 1, 3, 8]),
    st.sampled_from([1, 1, 2, 3]),
)


@examples(300)
@given(st.lists(acls_of_any_kind, max_size=12), filters)
def test_a_filter_finds_what_it_means(acls: list[Acl], wanted: AclFilter) -> None:
    image = image_of(acls)
    found = wanted.find(image)
    expected = plainly(acls, wanted)
    assert sorted(map(repr, (one for _, one in found))) == sorted(map(repr, expected))
    assert found == sorted(found, key=lambda one: (one[1].resource, one[0]))


@examples(300)
@given(
    st.lists(st.lists(acls_of_any_kind, max_size=12), min_size=1, max_size=3),
    st.lists(filters, max_size=8),
)
@example([[acl("allow READ TOPIC:* User:a")]], [AclFilter(1, "*", 2, None, None, 1, 1)])
@example([[acl("allow READ TOPIC:ab~ User:a")]], [AclFilter(1, "ab", 2, None, None, 1, 1)])
def test_an_index_finds_what_each_filter_does(
    versions: list[list[Acl]], wanted: list[AclFilter]
) -> None:
    """However many entries the resources have that it names, and whatever was there before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acl_index, "NAMED_MAX", -1)
        for image in map(image_of, versions):
            index = AclIndex(image)
            found = [whole(index.find(one)) for one in wanted]
            assert found == [one.find(image) for one in wanted]


def test_thousands_of_entries_are_not_compared_with_each_of_many_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10,000 entries and 1,000 wide filters took 85 s in one step."""
    world = world_with(*(f"allow READ TOPIC:t{n} User:{n % 7} 10.0.0.{n}" for n in range(200)))
    looked_at: list[Any] = []
    items, since = PMap.items, PMap.since

    def walked(entries: PMap[Any, Any]) -> Any:
        looked_at.extend(entries)
        return items(entries)

    def watched(entries: PMap[Any, Any], begin: Any) -> Any:
        for key in since(entries, begin):
            looked_at.append(key)
            yield key

    monkeypatch.setattr(PMap, "items", walked)
    monkeypatch.setattr(PMap, "since", watched)
    shapes = [
        Filter(**anything(resource_type_filter=3, resource_name_filter=a, principal_filter=b))
        for a in (None, "t1")
        for b in (None, "User:1")
    ]
    hosts = [Filter(**anything(host_filter=f"10.0.1.{n}")) for n in range(100)]
    match = [
        Filter(**anything(resource_name_filter=f"t{n}~", pattern_type_filter=2)) for n in range(100)
    ]
    answer = world.ask(m.DeleteAclsRequest(filters=[*shapes * 50, *hosts, *match]))
    assert {len(one.matching_acls) for one in answer.filter_results} == {0}
    assert len(looked_at) <= 2 * 400, "what comes next, for each set of numbers that occurs"


def test_more_filters_than_changes_that_fit_one_request_are_refused() -> None:
    world = world_with("allow READ TOPIC:t User:a")
    nobody = Filter(**anything(principal_filter="User:nobody"))
    assert world.ask(m.DeleteAclsRequest(filters=[nobody] * 10_000)).filter_results[0] == (
        m.DeleteAclsResponse.DeleteAclsFilterResult(error_message=None)
    )
    answer = world.ask(m.DeleteAclsRequest(filters=[nobody] * 10_001))
    assert {one.error_code for one in answer.filter_results} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [(1, ["literal", "prefixed"]), (3, ["literal"]), (4, ["prefixed"])],
    ids=["ANY", "LITERAL", "PREFIXED"],
)
def test_a_filter_by_name_finds_the_stored_kinds_of_pattern(pattern: int, found: list[str]) -> None:
    stored = {
        "literal": acl("allow READ TOPIC:t User:a"),
        "prefixed": acl("allow READ TOPIC:t~ User:a"),
    }
    image = image_of(list(stored.values()))
    wanted = AclFilter(2, "t", pattern, None, None, 1, 1)
    assert {one for _, one in wanted.find(image)} == {stored[name] for name in found}


@examples(100)
@given(
    st.lists(acls_of_any_kind, max_size=12),
    st.sampled_from(["a", "ab", "aba", "b", "*"]),
    st.sampled_from([2, 3]),
)
def test_match_finds_exactly_what_the_authorizer_looks_at(
    acls: list[Acl], name: str, kind: int
) -> None:
    """MATCH is there to ask what guards a resource."""
    image = image_of(acls)
    asked = AclFilter(kind, name, 2, None, None, 1, 1)
    looked = {key for _, group in guards(image.acls_by_resource, kind, name) for key in group}
    assert {key for key, _ in asked.find(image)} == looked


def test_a_filter_that_names_a_resource_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of those in one request, as scripts send, must not walk thousands of entries."""
    world = world_with(*(f"allow READ TOPIC:t{n} User:a" for n in range(9)))
    walked = len(world.tip.acls)
    items = PMap.items

    def watched(entries: PMap[Any, Any]) -> Any:
        assert len(entries) < walked, "every entry was looked at"
        return items(entries)

    monkeypatch.setattr(PMap, "items", watched)
    for kind, pattern in ((1, 1), (2, 1), (2, 3), (1, 3), (2, 4)):
        wanted = AclFilter(kind, "t3", pattern, None, None, 1, 1)
        assert len(list(wanted.find(world.tip))) == (pattern != 4)


def test_entries_of_one_resource_are_read_once_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 2,000 new ones was compared with each of 8,000 old ones: 13 s in one step."""
    world = world_with(*(f"allow READ TOPIC:t User:{n}" for n in range(20)))
    read = []
    values = PMap.values

    def watched(entries: PMap[Any, Any]) -> Any:
        read.append(len(entries))
        return values(entries)

    monkeypatch.setattr(PMap, "values", watched)
    more = [creation(f"allow READ TOPIC:t User:{n}") for n in range(15, 30)]
    result = handle(world.tip, m.CreateAclsRequest(creations=more), authorizer=AUTHORIZER)
    assert (len(result.records), read) == (10, [20])


def test_entries_that_no_znode_has_room_for_are_refused_while_zookeeper_holds_them() -> None:
    """Written they could not be, and nothing behind them would be written either."""
    wanted = [
        creation("allow READ TOPIC:t User:a", principal=f"User:{'x' * 20_000}{n}", operation=12)
        for n in range(60)
    ]
    done = [r.ZkMigrationStateRecord(zk_migration_state=1)]
    migrating = world_with(migration_enabled=True, znodes=sizes())
    migrating.controller.append(done, migrating.now_ms)
    migrating.commit()
    answers = migrating.ask(m.CreateAclsRequest(creations=wanted)).results
    codes = [one.error_code for one in answers]
    assert codes == [0] * 52 + [ErrorCode.POLICY_VIOLATION] * 8
    assert "/kafka-acl/Topic/t would take" in answers[-1].error_message
    (nodes,) = (
        AccessControlEntries().nodes(migrating.tip, one) for one in migrating.tip.acls_by_resource
    )
    (data,) = (value for value in nodes.values() if value)
    assert FRAME_BYTES_MAX - 25_000 < len(data) < FRAME_BYTES_MAX
    again = migrating.ask(m.CreateAclsRequest(creations=wanted[:1] + wanted[-1:])).results
    assert [one.error_code for one in again] == [0, ErrorCode.POLICY_VIOLATION]
    other = creation("allow READ TOPIC:u User:a")
    (answer,) = migrating.ask(m.CreateAclsRequest(creations=[other])).results
    assert answer.error_code == 0
    plain = world_with(znodes=sizes())
    answers = plain.ask(m.CreateAclsRequest(creations=wanted)).results
    assert {one.error_code for one in answers} == {0}
