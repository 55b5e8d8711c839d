"""A broker whose start ends for its ZooKeeper session is started again; no other is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from bench.chaos.plan import BROKER, Fault
from bench.chaos.stage import Options, Stage
from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import ProcessError

MET = (
    "ERROR Error while creating ephemeral at /brokers/ids/{id}, node already exists and owner "
    "'0x10000108f000002' does not match current session '0x30000108f110004'"
)
EXPIRED = (
    "org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session "
    "expired for /brokers/ids"
)
STARTED = "INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
_SCRIPT = """
import signal, sys
print(sys.argv[1], file=open(sys.argv[2], 'a'))
if 'started' not in sys.argv[1]: sys.exit(1)
signal.pause()
"""


class Scripted(KafkaBroker):
    """Each start logs its next line, and ends if that does not say that it has started."""

    says: Iterator[str]
    starts = 0

    def start(self) -> Self:
        self.starts += 1
        line = next(self.says).format(id=self.id)
        return self.launch([sys.executable, "-c", _SCRIPT, line, str(self.log)])


def scripted(folder: Path, *says: str) -> Scripted:
    broker = Scripted("3.9.2", 1, folder, "127.0.0.1:1")
    broker.says = iter(says)
    return broker


def test_it_is_started_until_its_last_session_is_over(tmp_path: Path) -> None:
    broker = scripted(tmp_path, MET, EXPIRED, MET, STARTED)
    broker.start().wait_started(60)
    assert broker.starts == 4
    assert not broker.lost_session
    broker.kill()
    assert not broker.lost_session, "it was killed"


@pytest.mark.parametrize("line", ["ERROR Fatal error", MET.replace("{id}", "7")])
def test_one_that_ends_for_another_reason_is_not(tmp_path: Path, line: str) -> None:
    broker = scripted(tmp_path, line, STARTED)
    with pytest.raises(ProcessError, match="ended with 1"):
        broker.start().wait_started(60)
    assert broker.starts == 1
    assert not broker.lost_session


def test_one_that_ends_after_it_had_started_is_not(tmp_path: Path) -> None:
    broker = scripted(tmp_path, f"{EXPIRED}\n{STARTED.replace('started', 'begun')}")
    broker.start().wait()
    assert broker.lost_session
    broker = scripted(tmp_path / "2", f"{STARTED.replace('[', '(')}\n{EXPIRED}")
    broker.start().wait_line("Session expired", 60)
    broker.stop()
    assert broker.exit_code != 0
    assert not broker.lost_session


def test_a_round_of_chaos_starts_it_unless_it_is_struck(tmp_path: Path) -> None:
    with Stage(Options(tmp_path)) as stage:
        first, *_ = stage.brokers = [
            scripted(tmp_path / "1", MET, STARTED, STARTED),
            scripted(tmp_path / "2", "ERROR Fatal error"),
            scripted(tmp_path / "3", STARTED),
        ]
        for broker in stage.brokers:
            broker.start()
        for broker in stage.brokers[:2]:
            broker.wait()
        stage.begin(BROKER, 0, Fault.KILL)
        assert stage.revive() == []
        stage.end(BROKER, 0, Fault.KILL)
        first.wait_started(60)
        assert [each.alive for each in stage.brokers] == [True, False, True]
        assert stage.revive() == []


def test_a_round_of_chaos_starts_it_again(tmp_path: Path) -> None:
    with Stage(Options(tmp_path)) as stage:
        broker = scripted(tmp_path, MET, STARTED)
        stage.brokers = [broker]
        broker.start().wait()
        assert stage.revive() == [broker]
        broker.wait_line("started", 60)
        assert stage.revive() == []
