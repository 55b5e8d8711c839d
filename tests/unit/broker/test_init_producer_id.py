"""InitProducerId: who gets an id, and which one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.broker.serving.producer_ids import ProducerIdSource
from emulator.metadata.acls import Operation, Permission, ResourceType
from tests.unit.broker.asking import ACLS, ask
from tests.unit.broker.test_descriptions import acl
from tests.unit.controller.world import image_of
from wire import messages as m
from wire.errors import ErrorCode


def source(*starts: int) -> ProducerIdSource:
    """Ids from blocks of 1000, which are there at once."""
    blocks = iter(starts)

    def give(_request: Any, then: Any, now_ms: int) -> None:
        start = next(blocks, None)
        block = m.AllocateProducerIdsResponse(producer_id_start=start or 0, producer_id_len=1_000)
        then(None if start is None else block, now_ms)

    ids = ProducerIdSource(1, lambda: 17, give)
    assert ids.claim(0) is None
    return ids


def init(ids: ProducerIdSource | None = None, **fields: Any) -> Any:
    options = {key: fields.pop(key) for key in ("properties", "image", "version") if key in fields}
    request = m.InitProducerIdRequest(
        **{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}
    )
    image = options.pop("image", image_of())
    return ask(image, request, producer_ids=ids or source(4_000), **options)


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_its_own_id(version: int):
    ids = source(4_000)
    answers = [init(ids, version=version) for _ in range(3)]
    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
        (0, 4_000 + number, 0) for number in range(3)
    ]


def test_a_producer_that_comes_before_the_block_is_told_to_come_again():
    answer = init(ProducerIdSource(1, lambda: 17, lambda *_: None))
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_an_id_without_an_epoch_is_refused(fields: dict[str, int]):
    assert init(**fields).error_code == ErrorCode.INVALID_REQUEST


def test_an_id_of_its_own_is_replaced():
    assert init(producer_id=5, producer_epoch=3).producer_id == 4_000


@pytest.mark.parametrize("name", ["tx", ""])
def test_transactions_are_refused_and_use_no_id(name: str):
    ids = source(4_000)
    assert init(ids, transactional_id=name).error_code == ErrorCode.INVALID_REQUEST
    assert init(ids).producer_id == 4_000


RIGHTS = [
    ([], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ([acl(Operation.IDEMPOTENT_WRITE)], ErrorCode.NONE),
    ([acl(Operation.WRITE, ResourceType.TOPIC, "t")], ErrorCode.NONE),
    ([acl(Operation.ALL, ResourceType.TOPIC, "*")], ErrorCode.NONE),
    ([acl(Operation.READ, ResourceType.TOPIC, "t")], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ([acl(Operation.WRITE, ResourceType.GROUP, "t")], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize(("entries", "code"), RIGHTS)
def test_idempotent_producers_need_a_right_to_write(entries: list[Any], code: ErrorCode):
    answer = init(image=image_of(*entries), properties=ACLS)
    assert answer.error_code == code


DENIALS = [
    ("t", 3, True),
    ("*", 3, True),
    ("t", 4, True),
    ("topic", 4, False),
    ("x", 4, False),
    ("other", 3, False),
]


@pytest.mark.parametrize(("name", "pattern", "covers"), DENIALS)
def test_a_denial_that_covers_the_only_topic_denies(name: str, pattern: int, covers: bool):
    image = image_of(
        acl(Operation.WRITE, ResourceType.TOPIC, "t"),
        acl(
            Operation.WRITE,
            ResourceType.TOPIC,
            name,
            number=701,
            pattern=pattern,
            permission=Permission.DENY,
        ),
    )
    code = init(image=image, properties=ACLS).error_code
    assert code == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED if covers else ErrorCode.NONE)


def left(entries: list[Any]) -> bool:
    """Whether an ALLOW is left, by comparing each with each."""
    topics = [one for one in entries if one.resource_type == ResourceType.TOPIC]
    ours = [one for one in topics if one.principal in {"User:ANONYMOUS", "User:*"}]
    ours = [one for one in ours if one.host in {"127.0.0.1", "*"}]
    ours = [one for one in ours if one.operation in {Operation.WRITE, Operation.ALL}]

    def denies(deny: Any, one: Any) -> bool:
        if (deny.pattern_type, deny.resource_name) == (3, "*"):
            return True
        if deny.pattern_type == 4:
            return bool(one.resource_name.startswith(deny.resource_name))
        return (one.pattern_type, one.resource_name) == (3, deny.resource_name)

    denied = [one for one in ours if one.permission_type == Permission.DENY]
    allowed = [one for one in ours if one.permission_type == Permission.ALLOW]
    if (3, "*") in {(one.pattern_type, one.resource_name) for one in allowed}:
        return not any((one.pattern_type, one.resource_name) == (3, "*") for one in denied)
    return any(not any(denies(deny, one) for deny in denied) for one in allowed)


def test_whatever_the_acls_one_that_no_denial_covers_is_looked_for():
    rng, seen = Random(1), set[bool]()
    for _ in range(300):
        entries = []
        for number in range(rng.randrange(1, 7)):
            one = acl(
                rng.choice((Operation.WRITE, Operation.ALL, Operation.READ)),
                rng.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
                rng.choice(("*", "a", "ab", "abc", "b")),
                number=700 + number,
                pattern=rng.choice((3, 4)),
                permission=rng.choice((Permission.ALLOW, Permission.DENY)),
            )
            one.principal = rng.choice(("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:u"))
            one.host = rng.choice(("*", "*", "127.0.0.1", "10.0.0.1"))
            entries.append(one)
        seen.add(left(entries))
        answer = init(image=image_of(*entries), properties=ACLS)
        assert (answer.error_code == ErrorCode.NONE) == left(entries), entries
    assert seen == {False, True}


def test_a_transactional_id_needs_the_right_to_write_it():
    image = image_of(acl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "mine"))
    answer = init(image=image, properties=ACLS, transactional_id="other")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answer = init(image=image, properties=ACLS, transactional_id="mine")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
