"""StandardAuthorizer's answers: a table, and a law against the plainest reading of the rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.metadata.acls import Acl, Operation, PatternType, Permission, Resource, ResourceType
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.pmap import PMap
from tests.kit.laws import examples
from tests.unit.controller.world import call
from wire import messages as m


def acl(text: str) -> Acl:
    """``allow|deny OPERATION TYPE:NAME PRINCIPAL [HOST]``; ``NAME~`` is a prefix."""
    permission, operation, resource, principal, host = (*text.split(), "*")[:5]
    kind, _, name = resource.partition(":")
    pattern = PatternType.PREFIXED if name.endswith("~") else PatternType.LITERAL
    return Acl(
        Resource(int(ResourceType[kind]), int(pattern), name.removesuffix("~")),
        principal,
        host,
        int(Operation[operation]),
        int(Permission[permission.upper()]),
    )


def image_of(acls: list[Acl]) -> Image:
    """An image with nothing but ACLs."""
    by_id = {number.to_bytes(16, "big"): one for number, one in enumerate(acls)}
    groups: dict[Resource, dict[bytes, Acl]] = {}
    for key, one in by_id.items():
        groups.setdefault(one.resource, {})[key] = one
    by_resource = PMap({resource: PMap(group) for resource, group in groups.items()})
    return Image(acls=PMap(by_id), acls_by_resource=by_resource)


def allowed(
    image: Image,
    question: str,
    authorizer: StandardAuthorizer = StandardAuthorizer(),  # noqa: B008 - it is frozen
) -> bool:
    """Answer ``OPERATION TYPE:NAME PRINCIPAL [ADDRESS as hex]``."""
    operation, resource, principal, address = (*question.split(), "7f000001")[:4]
    kind, _, name = resource.partition(":")
    asked = call(
        m.DeleteTopicsRequest(), principal=principal, client_address=bytes.fromhex(address)
    )
    return authorizer.allows(image, asked, Operation[operation], ResourceType[kind], name)


TABLE: list[tuple[list[str], str, bool]] = [
    ([], "READ TOPIC:t User:a", False),
    (["allow READ TOPIC:t User:a"], "READ TOPIC:t User:a", True),
    (["allow READ TOPIC:t User:a"], "READ TOPIC:t User:b", False),
    (["allow READ TOPIC:t User:a"], "READ TOPIC:t Group:a", False),
    (["allow READ TOPIC:t User:a"], "READ GROUP:t User:a", False),
    (["allow READ TOPIC:t User:a"], "READ TOPIC:t2 User:a", False),
    (["allow READ TOPIC:t User:a"], "WRITE TOPIC:t User:a", False),
    (["allow ALL TOPIC:t User:a"], "WRITE TOPIC:t User:a", True),
    (["allow READ TOPIC:t User:*"], "READ TOPIC:t User:a", True),
    (["allow READ TOPIC:t User:*"], "READ TOPIC:t Group:g", True),
    (["allow READ TOPIC:t Group:*"], "READ TOPIC:t Group:g", False),
    (["allow READ TOPIC:* User:a"], "READ TOPIC:t User:a", True),
    (["allow READ TOPIC:*~ User:a"], "READ TOPIC:t User:a", False),
    (["allow READ TOPIC:*~ User:a"], "READ TOPIC:*t User:a", True),
    (["allow READ TOPIC:pay~ User:a"], "READ TOPIC:payments User:a", True),
    (["allow READ TOPIC:pay~ User:a"], "READ TOPIC:pay User:a", True),
    (["allow READ TOPIC:pay~ User:a"], "READ TOPIC:pa User:a", False),
    (["allow READ TOPIC:pay~ User:a"], "READ TOPIC:paz User:a", False),
    (["allow READ TOPIC:pay User:a"], "READ TOPIC:payments User:a", False),
    (
        ["allow READ TOPIC:p~ User:a", "allow WRITE TOPIC:pay~ User:a", "allow WRITE TOPIC:paz~ b"],
        "READ TOPIC:payments User:a",
        True,
    ),
    # One denial outweighs every permission, wherever it stands.
    (["allow ALL TOPIC:t User:a", "deny READ TOPIC:t User:a"], "READ TOPIC:t User:a", False),
    (["allow ALL TOPIC:t User:a", "deny READ TOPIC:* User:a"], "READ TOPIC:t User:a", False),
    (["allow ALL TOPIC:t User:a", "deny READ TOPIC:t~ User:*"], "READ TOPIC:t User:a", False),
    (["allow ALL TOPIC:t User:a", "deny ALL TOPIC:t User:a"], "READ TOPIC:t User:a", False),
    (["allow ALL TOPIC:t User:a", "deny READ TOPIC:t User:b"], "READ TOPIC:t User:a", True),
    # Implied operations, of permissions only.
    *((["allow " + one + " TOPIC:t User:a"], "DESCRIBE TOPIC:t User:a", True)
      for one in ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL")),
    (["allow ALTER_CONFIGS TOPIC:t User:a"], "DESCRIBE TOPIC:t User:a", False),
    (["allow DESCRIBE TOPIC:t User:a"], "READ TOPIC:t User:a", False),
    (["allow ALTER_CONFIGS TOPIC:t User:a"], "DESCRIBE_CONFIGS TOPIC:t User:a", True),
    (["allow ALTER TOPIC:t User:a"], "DESCRIBE_CONFIGS TOPIC:t User:a", False),
    (
        ["deny READ TOPIC:t User:a", "allow WRITE TOPIC:t User:a"],
        "DESCRIBE TOPIC:t User:a",
        True,
    ),
    # Hosts, as Java spells addresses.
    (["allow READ TOPIC:t User:a 127.0.0.1"], "READ TOPIC:t User:a", True),
    (["allow READ TOPIC:t User:a 127.0.0.2"], "READ TOPIC:t User:a", False),
    (["deny READ TOPIC:t User:a 127.0.0.1", "allow READ TOPIC:t User:a"],
     "READ TOPIC:t User:a", False),
    (["deny READ TOPIC:t User:a 127.0.0.1", "allow READ TOPIC:t User:a"],
     "READ TOPIC:t User:a 7f000002", True),
    (["allow READ TOPIC:t User:a 0:0:0:0:0:0:0:1"],
     "READ TOPIC:t User:a 00000000000000000000000000000001", True),
    (["allow READ TOPIC:t User:a 10.0.0.7"],
     "READ TOPIC:t User:a 00000000000000000000ffff0a000007", True),
]  # fmt: skip


@pytest.mark.parametrize(("acls", "question", "answer"), TABLE)
def test_the_rules_one_by_one(acls: list[str], question: str, answer: bool) -> None:
    assert allowed(image_of([acl(text) for text in acls]), question) is answer


def test_super_users_stand_above_every_acl() -> None:
    authorizer = StandardAuthorizer(frozenset({"User:root"}))
    image = image_of([acl("deny ALL TOPIC:* User:*")])
    assert allowed(image, "READ TOPIC:t User:root", authorizer)
    assert not allowed(image, "READ TOPIC:t Group:root", authorizer)
    assert not allowed(EMPTY, "READ TOPIC:t User:a", authorizer)


def test_everyone_is_allowed_only_where_nothing_guards_the_resource() -> None:
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=True)
    for guard in (
        "allow READ TOPIC:t User:b",
        "deny WRITE TOPIC:t~ User:b",
        "allow READ TOPIC:* b",
    ):
        image = image_of([acl(guard)])
        assert not allowed(image, "READ TOPIC:t User:a", authorizer)
        assert allowed(image, "READ GROUP:t User:a", authorizer)
    assert allowed(image_of([acl("allow READ TOPIC:tt~ b")]), "READ TOPIC:t User:a", authorizer)


NAMES = ["*", "a", "ab", "aba", "abab", "ac", "b", "é", "\U0001f600a"]
OPERATIONS = [2, 3, 7, 8, 10, 11]
acls_of_any_kind = st.builds(
    Acl,
    st.builds(
        Resource,
        st.sampled_from([2, 2, 2, 3]),
        st.sampled_from([3, 4]),
        st.sampled_from(["*", "a", "ab", "aba", *NAMES]),
    ),
    st.sampled_from(["User:a", "User:*", "User:b", "Group:a"]),
    st.sampled_from(["*", "*", "127.0.0.1", "127.0.0.2"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([2, 3, 3]),
)


def plainly(acls: list[Acl], operation: int, kind: int, name: str, *, default: bool) -> bool:
    """The rules as KIP-11 and KIP-290 tell them, for User:a at 127.0.0.1."""
    implied = {8: {8, 3, 4, 6, 7}, 10: {10, 11}}
    there = [
        one
        for one in acls
        if one.resource.resource_type == kind
        and (
            name.startswith(one.resource.name)
            if one.resource.pattern_type == 4
            else one.resource.name in {name, "*"}
        )
    ]
    mine = [
        one
        for one in there
        if one.principal in {"User:a", "User:*"} and one.host in {"*", "127.0.0.1"}
    ]
    if any(one.permission == 2 and one.operation in {2, operation} for one in mine):
        return False
    yes = implied.get(operation, {operation}) | {2}
    if any(one.permission == 3 and one.operation in yes for one in mine):
        return True
    return default if not there else False


@examples(300)
@given(
    st.lists(acls_of_any_kind, min_size=1, max_size=15),
    st.sampled_from([3, 3, 8, 10]),
    st.sampled_from([2, 2, 2, 3]),
    st.sampled_from(["aba", "aba", "abab", "abab", *NAMES]),
    st.booleans(),
)
def test_it_decides_as_the_rules_say(
    acls: list[Acl],
    operation: int,
    kind: int,
    name: str,
    everyone: bool,
) -> None:
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=everyone)
    asked = call(m.DeleteTopicsRequest(), principal="User:a")
    found = authorizer.allows(image_of(acls), asked, Operation(operation), ResourceType(kind), name)
    assert found is plainly(acls, operation, kind, name, default=everyone)
