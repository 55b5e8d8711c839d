"""ZooKeeper is stopped in the middle of a load, and goes on in any case."""

import contextlib
import threading
import time
from types import SimpleNamespace

from bench.runs import stage
from bench.runs.client import OpenLoop
from bench.runs.faults import Fault
from bench.runs.scenario import Case
from tests.unit.runs.test_client import Numbers, Server, played


class Leader:
    """A server that tells when it is stopped."""

    def __init__(self):
        self.stopped = threading.Event()
        self.stops = 0

    @contextlib.contextmanager
    def paused(self):
        self.stops += 1
        self.stopped.set()
        yield
        self.stopped.clear()


def frozen(at_s, freeze_s):
    leader = Leader()
    case = Case("frozen", rate=1, count=1, fault_at_s=at_s, freeze_s=freeze_s)
    fault = Fault(case, SimpleNamespace(leader=lambda: leader))
    fault.start()
    return leader, fault


def test_a_freeze_that_has_begun_is_waited_for():
    leader, fault = frozen(0.0, 0.05)
    assert leader.stopped.wait()
    fault.close()
    assert not leader.stopped.is_set()
    assert fault.end_ns - fault.begin_ns >= 50_000_000


def test_one_that_has_not_begun_never_does():
    leader, fault = frozen(60.0, 60.0)
    fault.close()
    assert (leader.stops, fault.begin_ns) == (0, None)


def test_a_row_that_is_given_up_does_not_wait_for_the_end_of_the_freeze():
    """Ctrl-C took up to five minutes."""
    leader, fault = frozen(0.0, 300.0)
    assert leader.stopped.wait()
    began_s = time.monotonic()
    fault.close(at_once=True)
    assert not leader.stopped.is_set()
    assert time.monotonic() - began_s < 60


def test_a_fault_begins_with_the_schedule_and_not_while_connections_are_opened(monkeypatch):
    leader, loop = Leader(), OpenLoop(Numbers(), 20, 100, 2, "test")
    case = Case("frozen", rate=100, count=20, fault_at_s=0.0)
    fault = Fault(case, SimpleNamespace(leader=lambda: leader))
    monkeypatch.setattr(stage, "_run", lambda *_: played(Server(), loop))
    here = SimpleNamespace(controller=SimpleNamespace(port=0))
    stage._load_under(fault, loop, here, case)
    assert leader.stops == 1
    assert fault.begin_ns >= loop.begin_ns > 0
