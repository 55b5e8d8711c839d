"""One of three voters is configured so that it cannot claim: another one leads in the end."""

from __future__ import annotations

import json

import pytest

from emulator.config.load import Config
from emulator.config.passwords import PasswordSettings
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.znodes.passwords import Passwords
from tests.unit.node.migrating_quorum import BROKER, MigratingQuorum
from tests.unit.node.test_quorum import IDS
from wire import messages as m

SECRET = "of-the-brokers"
KEY = "listener.name.internal.ssl.key.password"
ODD = 3001
UNLIKE = {
    "another listener": ({"inter.broker.listener.name": "OTHER"}, Why.NO_LISTENER),
    "another chroot": ({"zookeeper.connect": "zk:2181/typo"}, Why.NO_CONTROLLER_EPOCH),
    "no secret": ({"password.encoder.secret": ""}, Why.ENCODED),
}


class Unlike(MigratingQuorum):
    """``unlike``: what is different in the configuration of the nodes in ``odd``."""

    def __init__(self, unlike: dict[str, str], *odd: int) -> None:
        self.unlike, self.odd = unlike, set(odd)
        super().__init__(password_encoder_secret=SECRET, broker_session_timeout_ms="3600000")
        encoded = Passwords(PasswordSettings(secret=SECRET)).encode("a broker", "hidden")
        config = {"version": 1, "config": {KEY: encoded}}
        self.put("/config/brokers", None)
        self.put(f"/config/brokers/{BROKER}", json.dumps(config).encode())

    def configured(self, raw: dict[str, str]) -> Config:
        raw |= {
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "OTHER:PLAINTEXT",
        }
        more = self.unlike if int(raw["node.id"]) in self.odd else {}
        return super().configured({key: value for key, value in (raw | more).items() if value})

    def register(self, broker_id: int = BROKER, *, answered: bool = True, version: int = 4) -> None:
        """As any broker, and then it is unfenced."""
        super().register(broker_id, answered=answered, version=version)
        self.joined.until(lambda: broker_id in self.node(self.leader).controller.stable.brokers)
        leader = self.leader
        beat = m.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.node(leader).controller.stable.brokers[broker_id].epoch,
            current_metadata_offset=2**40,
        )
        asker = self.joined.ask((f"host-{leader}", 9093))
        assert not asker.ask(beat, 1).is_fenced

    def leads(self) -> list[int]:
        return [each for each in self.parties if self.node(each).raft.is_leader]

    def let_lead(self, wanted: int) -> None:
        """Kill whoever else leads, until this one does."""
        for _ in range(20):
            self.joined.until(lambda: bool(self.leads()))
            (leader,) = self.leads()
            if leader == wanted:
                return
            self.kill(leader)
            self.joined.until(lambda: bool(self.leads()))
            self.start(leader)
        raise AssertionError(f"{wanted} was never elected")

    def epoch(self) -> int:
        return max(self.node(each).raft.leader_epoch for each in self.parties)


def migrated(unlike: dict[str, str], *odd: int) -> Unlike:
    """In dual write, when these voters get what is unlike the others."""
    quorum = Unlike(unlike)
    quorum.migrate()
    quorum.wait_written()
    quorum.odd = set(odd)
    for each in odd:
        quorum.kill(each)
        quorum.joined.until(lambda: bool(quorum.leads()))
        quorum.start(each)
    return quorum


@pytest.mark.requirement("E07")
@pytest.mark.parametrize(("unlike", "why"), UNLIKE.values(), ids=UNLIKE)
def test_a_voter_that_cannot_claim_says_why_and_gives_way(unlike: dict[str, str], why: Why) -> None:
    quorum = migrated(unlike, ODD)
    quorum.let_lead(ODD)
    quorum.joined.wait(1_000)
    waiting = quorum.driver(ODD).status(quorum.joined.now_ms).waiting
    assert [one.reason.why for one in waiting] == [why]
    others = set(IDS) - {ODD}
    quorum.joined.until(lambda: set(quorum.active()) <= others and bool(quorum.active()), 30_000)
    assert quorum.wait_for(State.DUAL_WRITE) in others
    quorum.wait_written()
    assert quorum.change(quorum.leader, "ann") == 0
    quorum.wait_written()
    assert quorum.differences().keys() <= {f"/config/brokers/{BROKER}"}, "a password is not judged"
    assert "/config/users/ann" in quorum.zookeeper.nodes


@pytest.mark.slow
def test_where_all_are_so_leadership_rests_longer_and_longer() -> None:
    quorum = migrated({"zookeeper.connect": "zk:2181/typo"}, *IDS)
    quorum.joined.wait(10_000)
    before = quorum.epoch()
    quorum.joined.wait(200_000)
    first = quorum.epoch() - before
    assert 2 <= first <= 20
    quorum.joined.wait(200_000)
    assert quorum.epoch() - before - first <= 5
    quorum.odd = set()
    for each in IDS:
        quorum.kill(each)
        quorum.start(each)
    quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_written()
