"""Every class of entities on a real ZooKeeper: a recorded run written anew, ACLs, tokens, purge."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from emulator.metadata import EMPTY
from emulator.metadata.acls import PatternType, Resource, ResourceType
from emulator.metadata.znodes import why_no_name
from emulator.migration.plan import Piece, PlannedPaths, changes, compare
from emulator.migration.taking_over.purge import AGE_MS, LISTED_MAX, PurgeTask
from emulator.migration.taking_over.tasks import Done
from emulator.migration.tree_diff import differences
from emulator.servers.zookeeper import ZooKeeper
from emulator.znodes import acls
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.reader import Tree
from emulator.zookeeper.ops import (
    SEQUENTIAL,
    Create,
    GetChildren,
    Multi,
    SetData,
    ZkOp,
    ZkResult,
)
from tests.conformance.recorded_run import FULL, Run
from tests.conformance.test_recorded_dual_write import DEFECTS, STEPS
from tests.integration.test_tree_on_zookeeper import apply, read, write
from tests.integration.zookeeper_wire import Wire
from wire import records as r

IDS = [bytes(15) + bytes([n]) for n in (1, 2, 3)]


@pytest.fixture
def wire(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[Wire]:
    """A session in a chroot of the test's own."""
    found = Wire(zookeeper.port, chroot=f"/{request.node.name.partition('[')[0]}")
    yield found
    found.end()


class RealRun(Run):
    """The run on a real ZooKeeper: its tree is written there first, as Kafka had it."""

    def __init__(self, wire: Wire) -> None:
        self.wire: Wire | None = None
        super().__init__(FULL)
        kept = {p: n for p, n in self.tree.nodes.items() if not n.ephemeral_owner}
        ops: list[ZkOp] = [
            Create(path, kept[path].data)
            for path in sorted(kept)
            if path != "/" and not path.startswith("/zookeeper")
        ]
        # A comparison looks at the versions of states.
        ops += [
            SetData(path, node.data)
            for path, node in sorted(kept.items())
            if path.endswith("/state")
            for _ in range(node.version)
        ]
        for at in range(0, len(ops), 100):
            outcome = wire.ask(Multi(tuple(ops[at : at + 100])))
            assert isinstance(outcome, ZkResult), outcome
        self.wire = wire

    def read(self) -> Tree:
        """What lies in ZooKeeper."""
        return super().read() if self.wire is None else read(self.wire)

    def _write(self, pieces: Iterator[Piece]) -> list[ZkOp]:
        if self.wire is None:
            return super()._write(pieces)
        found = list(pieces)
        write(self.wire, found)
        ops = [op for piece in found for group in piece for op in group]
        # The model goes along: it is compared with Kafka's dumps.
        return super()._write(iter(found)) if ops else []


@pytest.mark.requirement("G04", "G08")
def test_after_each_kind_of_change_both_stores_agree(wire: Wire, zk_client: KazooClient) -> None:
    """The 29 steps of a recorded dual write: every class made, changed and removed.

    ZooKeeper is what the log says, a comparison finds nothing to write, and each notification was
    made after the znode that it is about.
    """
    run = RealRun(wire)
    for step in STEPS[FULL]:
        run.follow(step)
        assert run.unlike_image() == [], step
        assert run.reconcile() == [], step
    found = run.read()
    for path, node in run.tree.nodes.items():
        if any(entity.owns(path) for entity in ENTITIES_WITHOUT_SECRETS):
            assert found.data(path) == node.data, path
    assert set(run.differing(STEPS[FULL][-1])) <= set(DEFECTS[FULL])
    root = f"/{test_after_each_kind_of_change_both_stores_agree.__name__}"
    told = 0
    for folder, name_of in (
        ("/config/changes", lambda d: "/config/" + json.loads(d)["entity_path"]),
        ("/kafka-acl-changes", _acl_path),
        ("/delegation_token/token_changes", lambda d: f"/delegation_token/tokens/{d.decode()}"),
    ):
        last: dict[str, int] = {}
        for name in sorted(zk_client.get_children(root + folder)):
            data, stat = zk_client.get(f"{root}{folder}/{name}")
            last[name_of(data)] = stat.czxid
        for path, czxid in last.items():
            stat = zk_client.exists(root + path)
            assert stat is None or stat.mzxid <= czxid, path
            told += stat is not None
    assert told > 15


def _acl_path(data: bytes) -> str:
    kind, _, name = data.decode().partition(":")
    return f"/kafka-acl/{''.join(word.capitalize() for word in kind.split('_'))}/{name}"


@pytest.mark.requirement("W11", "W12")
def test_acls_and_tokens_where_no_authorizer_ever_ran(wire: Wire, zk_client: KazooClient) -> None:
    """Made with their folders, changed, removed with their znode; told each time."""
    root = f"/{test_acls_and_tokens_where_no_authorizer_ever_ran.__name__}"
    known = PlannedPaths()
    image = EMPTY
    write(wire, compare(read(wire), image, controller_epoch=1, known=known))
    assert not zk_client.exists(root + "/kafka-acl")
    told = []
    for records in (
        [_entry(IDS[0], "t", 3), _entry(IDS[1], "pre", 4), _token(5)],
        [_entry(IDS[2], "t", 3, operation=4), _token(6)],
        [r.RemoveAccessControlEntryRecord(id=IDS[0])],
        [
            r.RemoveAccessControlEntryRecord(id=IDS[1]),
            r.RemoveAccessControlEntryRecord(id=IDS[2]),
            r.RemoveDelegationTokenRecord(token_id="tok"),
        ],
    ):
        after, touched = apply(image, *records)
        write(wire, changes(image, after, touched, controller_epoch=1, known=known))
        image = after
        assert list(differences(read(wire), image, None)) == []
        assert write(wire, compare(read(wire), image, controller_epoch=1)) == 0
        folders = (
            "/kafka-acl-changes",
            "/kafka-acl-extended-changes",
            "/delegation_token/token_changes",
        )
        told.append([len(zk_client.get_children(root + folder)) for folder in folders])
    assert told == [[1, 1, 1], [2, 1, 2], [3, 1, 2], [4, 2, 3]]
    assert zk_client.get_children(root + "/kafka-acl/Topic") == []
    assert zk_client.get_children(root + "/delegation_token/tokens") == []


def _entry(acl_id: bytes, name: str, pattern: int, operation: int = 3) -> object:
    return r.AccessControlEntryRecord(
        id=acl_id, resource_type=2, resource_name=name, pattern_type=pattern,
        principal="User:a", host="*", operation=operation, permission_type=3,
    )  # fmt: skip


def _token(expires: int) -> object:
    return r.DelegationTokenRecord(
        owner="User:a", requester="User:a", renewers=[], issue_timestamp=1, max_timestamp=9,
        expiration_timestamp=expires, token_id="tok",
    )  # fmt: skip


def test_zookeeper_refuses_the_names_that_we_refuse(wire: Wire) -> None:
    """A CreateAcls with such a name must not be committed: it could never be written."""
    write(wire, [[(Create("/names", None),)]])
    points = [0x20, 0x7E, 0xA0, 0xD7FF, 0xF900, 0xFFEF, 0x1F600]
    points += [0, 1, 0x1F, 0x7F, 0x9F, 0xE000, 0xF8FF, 0xFFF0, 0xFFFD]
    names = [f"a{chr(point)}b" for point in points]
    for name in [*names, "*", "zookeeper", "...", "a:b", ".", "..", "a/b", "", "x" * 30_000]:
        outcome = wire.ask(Create(f"/names/{name}", b""))
        assert (why_no_name(name) is None) == isinstance(outcome, ZkResult), repr(name[:9])
        resource = Resource(ResourceType.TOPIC, PatternType.LITERAL, name)
        assert (acls.storable(resource) is None) == isinstance(outcome, ZkResult)


def test_old_notifications_are_purged(wire: Wire) -> None:
    """By the product's task, on the real server's times; the clock is an argument."""
    folder = "/config/changes"
    write(wire, [[(Create(path, None),)] for path in ("/config", folder, "/controller_epoch")])
    made = [Create(f"{folder}/config_change_", b"x", flags=SEQUENTIAL) for _ in range(200)]
    for _ in range(0, LISTED_MAX + 200, len(made)):
        write(wire, [[(op,) for op in made]])
    write(wire, [[(Create(f"{folder}/note", None),)]])
    now_ms = time.time_ns() // 1_000_000
    for clock_ms, purged in (
        (now_ms - 1_000, 0),
        (now_ms + AGE_MS + 1_000, LISTED_MAX + 200),
        (now_ms + 2 * AGE_MS, 0),
    ):
        task = PurgeTask(_Zk(wire), epoch_version=0)  # type: ignore[arg-type]
        task.begin(clock_ms)
        while task.result is None:
            (outcome,) = wire.collect(1)
            task.outcome(outcome, clock_ms)
        assert task.result == Done()
        assert task.purged == purged
    found = wire.ask(GetChildren(folder))
    assert isinstance(found, ZkResult)
    assert found.value == ("note",)


class _Zk:
    connected = True

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def submit(self, tag: object, request: Any, _now_ms: int) -> list[Any]:
        self._wire.submit(tag, request)
        return []
