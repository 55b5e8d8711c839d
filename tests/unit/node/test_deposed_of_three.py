"""A leader of three whose claim is taken from it resigns, and the guards judge the next claim."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.node.role import Role
from emulator.seam import Effect, Log, Send
from emulator.znodes import own
from emulator.zookeeper.ops import Delete
from tests.kit.joined import Party
from tests.unit.node.migrating_quorum import MigratingQuorum, in_dual_write
from tests.unit.node.test_quorum import IDS
from tests.unit.node.test_quorum_migration import finished, holder

GIVES_UP = "gives its leadership up"


def raise_epoch(quorum: MigratingQuorum) -> None:
    quorum.put("/controller_epoch", b"%d" % (int(quorum.data("/controller_epoch") or b"") + 1))


def delete_controller(quorum: MigratingQuorum) -> None:
    quorum.zookeeper.write(Delete("/controller"))


def register(quorum: MigratingQuorum, kraft_epoch: int, broker_id: int = 77) -> None:
    """As another controller would say that it is the active one."""
    said = b'{"version":2,"brokerid":%d,"timestamp":"5","kraftControllerEpoch":%d}'
    quorum.put("/controller", said % (broker_id, kraft_epoch))


def another_quorum(quorum: MigratingQuorum) -> None:
    register(quorum, holder(quorum).kraft_epoch - 1)


def offline_reconcile(quorum: MigratingQuorum) -> None:
    """What `zk reconcile` on the folder of a voter beside an idle leader writes."""
    raise_epoch(quorum)
    register(quorum, holder(quorum).kraft_epoch, next(each for each in IDS if each != 1))


def another_wrote_ours(quorum: MigratingQuorum) -> None:
    """A process on a copy of the leader's folder has written our own znode."""
    mine = own.parse(quorum.data(own.PATH))
    other = own.encode(own.OwnZnode(**{**to_fields(mine), "incarnation": "another"}))
    quorum.put(own.PATH, other)


def to_fields(mine: own.OwnZnode) -> dict[str, object]:
    return {name: getattr(mine, name) for name in mine.__struct_fields__}


def noticed(quorum: MigratingQuorum, leader: int) -> None:
    """The chain is read back, as when an answer was lost."""
    quorum.joined.until(lambda: quorum.driver(leader).write_behind.idle)
    quorum.joined.perform(
        quorum.parties[leader], quorum.driver(leader).write_behind.check(quorum.joined.now_ms)
    )
    quorum.joined.settle()


def why(quorum: MigratingQuorum) -> list[str]:
    return [
        str(line.fields["why"])
        for party in quorum.parties.values()
        for line in party.logs
        if isinstance(line, Log) and line.event == GIVES_UP
    ]


@pytest.mark.requirement("E01")
@pytest.mark.parametrize(
    "somebody",
    [raise_epoch, delete_controller, another_quorum, offline_reconcile, another_wrote_ours],
)
def test_a_deposed_leader_of_three_resigns_and_the_next_one_claims(
    somebody: Callable[[MigratingQuorum], None],
) -> None:
    quorum, leader = in_dual_write()
    assert quorum.change(leader, "ann") == 0
    quorum.wait_written()
    somebody(quorum)
    noticed(quorum, leader)
    begin = quorum.joined.now_ms
    quorum.joined.until(lambda: bool(why(quorum)), 10_000)
    quorum.joined.until(lambda: len(quorum.active()) == 1, 10_000)
    assert quorum.joined.now_ms - begin < 10_000
    assert quorum.node(quorum.leader).raft.leader_epoch > 1
    finished(quorum)
    assert "/config/users/ann" in quorum.zookeeper.nodes
    assert quorum.node(leader).role.now is not Role.SILENT


def test_where_the_guards_refuse_the_next_claim_too_nobody_circles() -> None:
    """After a rollback by a broker the deposed leader resigns once; who leads then stays silent."""
    quorum, leader = in_dual_write()
    raise_epoch(quorum)
    register(quorum, -1)
    noticed(quorum, leader)
    quorum.joined.until(lambda: bool(why(quorum)), 10_000)
    quorum.joined.wait(5_000)
    epoch = max(quorum.node(each).raft.leader_epoch for each in IDS)
    count = len(quorum.writes)
    quorum.joined.wait(60_000)
    assert max(quorum.node(each).raft.leader_epoch for each in IDS) == epoch
    assert len(quorum.writes) == count, "nothing is written after a rollback"
    assert quorum.active() == []
    assert len(why(quorum)) == 1


def test_a_later_epoch_of_another_quorum_is_not_overtaken_by_elections() -> None:
    quorum, leader = in_dual_write()
    register(quorum, holder(quorum).kraft_epoch + 40)
    noticed(quorum, leader)
    quorum.joined.wait(60_000)
    assert quorum.active() == []
    assert max(quorum.node(each).raft.leader_epoch for each in IDS) < 10
    assert holder(quorum).broker_id == 77, "it is the operator who decides"
    delete_controller(quorum)
    finished(quorum)


@pytest.mark.parametrize("what", ["own znode deleted", "epoch raised"])
def test_a_claim_whose_answer_was_lost_and_that_cannot_be_recognised_is_made_anew(
    what: str,
) -> None:
    """It names this voter and its epoch, so no other claim of this epoch may be made."""
    quorum = MigratingQuorum()
    quorum.migrate()
    quorum.wait_written()
    first, last = quorum.leader, quorum.data("/controller_epoch")
    lost: list[str] = []

    def loses(party: Party, effect: Effect) -> bool:
        """The answer to the claim, and the connection; then somebody writes."""
        claimed = party.name == "zookeeper" and quorum.data("/controller_epoch") != last
        if lost or not claimed or not isinstance(effect, Send):
            return False
        lost.append(party.name)
        if what == "epoch raised":
            raise_epoch(quorum)
        else:
            quorum.zookeeper.write(Delete(own.PATH))
        quorum.joined.end(effect.conn, "cut")
        return True

    quorum.watched.before = loses
    quorum.kill(first)
    quorum.joined.until(lambda: bool(why(quorum)))
    assert lost
    assert "Restart" in why(quorum)[0] or "restart" in why(quorum)[0]
    quorum.start(first)
    finished(quorum)
