"""Three nodes joined in memory: who logs in by SCRAM where the users may not be those of now."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.config.load import Config
from emulator.net import scram
from emulator.net.login import LoginError
from emulator.node.machine import Node
from tests.kit.joined import Asker
from tests.kit.requests import delete_scram, upsert_scram
from tests.kit.sasl_properties import ACLS, log_in, sasl
from tests.unit.node.test_quorum import IDS, Quorum

MECHANISM = "SCRAM-SHA-256"
BOTH = sasl("CONTROLLER", mechanisms=f"PLAIN,{MECHANISM}")
NEVER = str(3_600_000)
KEY = "metadata.log.max.snapshot.interval.ms"


class Secured(Quorum):
    """A quorum with logins; ``interval_ms``: between snapshots, of the next node that starts."""

    interval_ms = "1000"
    files_of_more: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed

    def configured(self, raw: dict[str, str]) -> Config:
        return super().configured(
            raw
            | BOTH
            | ACLS
            | {KEY: self.interval_ms, "super.users": "User:node;User:bob"}
            | self.files_of_more
        )

    def asker(self, node_id: int) -> Asker:
        return self.joined.ask((f"host-{node_id}", 9093))

    def alter(self, *, up: str = "", down: str = "") -> None:
        salted = scram.salted("sha256", "secret", b"salt", 4_096)
        asked = upsert_scram(up, salted_password=salted) if up else delete_scram(down)
        told = log_in(self.asker(self.leader), "node").ask(asked, 0)
        assert [one.error_code for one in told.results] == [0]

    def lets_in(self, node_id: int, user: str) -> bool:
        try:
            log_in(self.asker(node_id), user, MECHANISM, "secret")
        except LoginError:
            return False
        return True

    def knows(self, node_id: int) -> bool:
        return (users := self.node(node_id)._users) is not None and users.known


def snapshots(node: Node) -> bool:
    return node.raft.latest_snapshot is not None


def with_bob_in_every_snapshot() -> Secured:
    made = Secured()
    made.alter(up="bob")
    made.alter(up="carol")
    made.wait_equal()
    made.joined.until(lambda: all(snapshots(made.node(one)) for one in IDS))
    ends = {one: made.node(one).raft.latest_snapshot for one in IDS}
    made.joined.until(lambda: all(made.node(one).raft.latest_snapshot != ends[one] for one in IDS))
    made.interval_ms = NEVER
    for one in IDS:
        made.kill(one)
        made.start(one)
        made.joined.until(lambda: len(made.active()) == 1)
    made.joined.until(lambda: all(made.lets_in(one, "bob") for one in IDS))
    return made


@pytest.mark.requirement("I10")
def test_a_deleted_user_does_not_come_in_at_a_voter_that_has_heard_no_leader() -> None:
    made = with_bob_in_every_snapshot()
    made.alter(down="bob")
    made.joined.until(lambda: not any(made.lets_in(one, "bob") for one in IDS))
    for one in IDS:
        made.kill(one)
    alone, *others = IDS
    made.start(alone)
    made.joined.wait(2_000)
    image = made.node(alone).controller.stable
    assert ("bob", 1) in image.scram_credentials, "its snapshot still has the user"
    assert not made.lets_in(alone, "bob")
    assert not made.lets_in(alone, "carol"), "nobody: it does not know who may"
    log_in(made.asker(alone), "node")
    for one in others:
        made.start(one)
    made.joined.until(lambda: all(made.lets_in(one, "carol") for one in IDS))
    assert not any(made.lets_in(one, "bob") for one in IDS)


@pytest.mark.requirement("I10")
def test_the_connections_of_a_deleted_user_end_at_every_voter() -> None:
    made = with_bob_in_every_snapshot()
    bobs = [log_in(made.asker(one), "bob", MECHANISM, "secret") for one in IDS]
    carols = [log_in(made.asker(one), "carol", MECHANISM, "secret") for one in IDS]
    plain = [log_in(made.asker(one), "node") for one in IDS]
    made.joined.wait(5_000)
    assert all(one.open for one in bobs)
    made.alter(down="bob")
    made.joined.wait(10_000)
    assert [one.open for one in bobs] == [False] * 3
    assert all(one.open for one in [*carols, *plain])


def test_a_user_that_is_deleted_and_made_anew_has_to_log_in_again() -> None:
    made = Secured()
    made.alter(up="bob")
    made.joined.until(lambda: all(made.lets_in(one, "bob") for one in IDS))
    old = [log_in(made.asker(one), "bob", MECHANISM, "secret") for one in IDS]
    made.alter(down="bob")
    made.alter(up="bob")
    made.joined.wait(2_000)
    assert [one.open for one in old] == [False] * 3
    made.joined.until(lambda: all(made.lets_in(one, "bob") for one in IDS))


def test_a_user_that_is_deleted_while_a_voter_loads_a_snapshot() -> None:
    """It was up, and far behind: it lets nobody in, and then ends what was let in before."""
    made = with_bob_in_every_snapshot()
    leader = made.leader
    behind, *_ = [one for one in IDS if one != leader]
    node: Any = made.node(behind)
    bob = log_in(made.asker(behind), "bob", MECHANISM, "secret")
    replica = node.raft.replica
    replica.outrun = True
    node._users.look()
    assert not made.lets_in(behind, "bob")
    log_in(made.asker(behind), "node")
    assert bob.open
    made.joined.until(lambda: made.knows(behind))
    assert made.lets_in(behind, "bob"), "the leader has sent records since"
