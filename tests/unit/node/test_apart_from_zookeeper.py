"""A leader that alone cannot reach ZooKeeper gives way; where nobody can, leadership rests."""

from __future__ import annotations

from itertools import product

import pytest

from emulator.migration.authority import Authority
from emulator.migration.states import State
from emulator.node.role import PATIENCE, Apartness, Role, Unfit, unfit
from emulator.seam import Closed
from tests.kit.joined import Asker, Party
from tests.kit.joined_zookeeper import ADDRESS
from tests.unit.node.migrating_quorum import MigratingQuorum, Watched
from tests.unit.node.test_quorum import IDS


@pytest.mark.parametrize(
    ("own_fault", "apart", "refused", "authority", "alone"),
    list(product((False, True), (False, True), (False, True), Authority, (False, True))),
)
def test_who_gives_up(
    own_fault: bool, apart: bool, refused: bool, authority: Authority, alone: bool
) -> None:
    found = unfit(
        own_fault=own_fault,
        over=False,
        apart=apart,
        refused=refused,
        authority=authority,
        alone=alone,
    )
    if alone:
        assert found is None, "nobody else can lead"
    elif own_fault:
        assert found is Unfit.OWN_FAULT
    else:
        unproven = authority is Authority.UNPROVEN
        claims_not = Unfit.REFUSED if refused else None
        assert found is (Unfit.APART if apart and unproven else claims_not), (
            "one that is served by its claim stays; what the quorum's log is refused for stays"
        )
    assert set(PATIENCE) == set(Unfit)


def test_each_time_it_waits_twice_as_long_until_there_is_a_session() -> None:
    apart = Apartness()
    apart.seen(1_000)
    assert apart.due_ms(20_000) == 31_000, "from the loss of the session"
    assert apart.due_ms(900_000) == 903_000, "others may lack what this one has"
    waits = []
    for apart.times in range(1, 9):
        due_ms = apart.due_ms(900_000)
        assert due_ms is not None
        waits.append((due_ms - 900_000) // 1_000)
    assert waits == [60, 120, 240, 480, 960, 960, 960, 960]
    apart.seen(None)
    assert (apart.due_ms(900_000), apart.times) == (None, 0)


class Blinded(MigratingQuorum):
    """Some nodes do not reach ZooKeeper; ``blind`` holds their ids."""

    def __init__(self, *blind: int) -> None:
        self.blind = set(blind)
        super().__init__()

    def start(self, node_id: int) -> None:
        watched = self.watched
        connect = Watched.connect

        def seen(party: Party | Asker, conn: int, address: tuple[str, int]) -> None:
            named = isinstance(party, Party) and party.name.isdigit() and int(party.name)
            if address == ADDRESS and named in self.blind:
                watched._waiting.append((party, Closed(conn, "refused")))
                return
            connect(watched, party, conn, address)

        watched.connect = seen  # type: ignore[method-assign]
        super().start(node_id)

    def close_eyes(self, *nodes: int) -> None:
        self.blind = set(nodes)
        for each in set(nodes) & set(self.parties):
            zk = self.node(each).zk
            if zk is not None and zk._channel is not None:
                self.joined.end(zk._channel.conn, "cut")
        self.joined.settle()

    def leads(self) -> list[int]:
        return [each for each in self.parties if self.node(each).raft.is_leader]

    def wait_won(self) -> int:
        self.joined.until(lambda: bool(self.leads()))
        return self.leads()[0]

    def epoch(self) -> int:
        return max(self.node(each).raft.leader_epoch for each in self.parties)


@pytest.mark.parametrize("seeing", IDS)
def test_before_the_migration_the_one_that_reaches_zookeeper_leads_in_the_end(seeing: int) -> None:
    quorum = Blinded(*(set(IDS) - {seeing}))
    quorum.joined.until(lambda: quorum.active() == [seeing], 120_000)
    assert quorum.epoch() <= 8


@pytest.mark.parametrize("times", range(2))
def test_after_a_failover_the_one_that_reaches_zookeeper_goes_on(times: int) -> None:
    quorum = Blinded()
    dead = quorum.migrate()
    quorum.wait_written()
    rest = set(IDS) - {dead}
    quorum.close_eyes(*rest)
    quorum.joined.wait(1_000 + times * 40_000)
    quorum.kill(dead)
    blind = quorum.wait_won()
    assert quorum.node(blind).role.now is not Role.ACTIVE
    quorum.close_eyes(blind)
    (seeing,) = rest - {blind}
    quorum.joined.until(lambda: quorum.active() == [seeing], 120_000)
    quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_written()
    assert quorum.differences() == {}


def test_while_nobody_reaches_zookeeper_leadership_rests_longer_and_longer() -> None:
    quorum = Blinded()
    dead = quorum.migrate()
    quorum.wait_written()
    quorum.close_eyes(*IDS)
    quorum.kill(dead)
    quorum.wait_won()
    before = quorum.epoch()
    quorum.joined.wait(200_000)
    first = quorum.epoch() - before
    assert 2 <= first <= 8
    quorum.joined.wait(200_000)
    assert quorum.epoch() - before - first <= 2
    quorum.close_eyes()
    quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_written()
    assert quorum.differences() == {}


def test_a_leader_whose_claim_is_valid_stays_while_zookeeper_is_away() -> None:
    """It serves callers up to the bound; another one would have to refuse them all."""
    quorum = Blinded()
    leader = quorum.migrate()
    quorum.wait_written()
    epoch = quorum.epoch()
    quorum.close_eyes(leader)
    quorum.joined.wait(100_000)
    assert (quorum.active(), quorum.epoch()) == ([leader], epoch)
    assert quorum.change(leader, "ann") == 0
    quorum.close_eyes()
    quorum.joined.wait(2_000)
    quorum.wait_written()
    assert "/config/users/ann" in quorum.zookeeper.nodes
