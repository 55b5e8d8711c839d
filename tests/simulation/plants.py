"""Faults of the product that tests of one controller and of three plant."""

import itertools

from emulator.controller.queue.writes import Writes
from emulator.metadata.history import History
from emulator.migration import plan
from emulator.migration.propagation import requests as propagation
from emulator.migration.taking_over import claim
from emulator.zookeeper.ops import Multi


def last_operation_forgotten(monkeypatch):
    """Of each unit of the plan."""
    changes = plan.changes

    def short(*args, **kwargs):
        for piece in changes(*args, **kwargs):
            yield piece[:-1]

    monkeypatch.setattr(plan, "changes", short)


def epoch_left(monkeypatch):
    """By a claim."""
    real = claim.multi

    def tame(*args):
        return Multi(tuple(op for op in real(*args).ops if op.path != "/controller_epoch"))

    monkeypatch.setattr(claim, "multi", tame)


def full_list_one_short(monkeypatch):
    """As a broker is sent it."""
    real = propagation.all_partitions
    monkeypatch.setattr(
        propagation, "all_partitions", lambda image: itertools.islice(real(image), 1, None)
    )


def committed_at_once(monkeypatch):
    """What is appended: ZooKeeper and observers get it too early."""
    real = History.advance
    monkeypatch.setattr(History, "advance", lambda self, _: real(self, self.tip.offset + 1))


def answered_at_once(monkeypatch):
    """Not when the records are committed."""
    real = Writes._answer

    def answer(self, *args):
        add = self.purgatory.add
        self.purgatory.add = lambda until, offset, reply, deadline: self._answers.give(reply)
        try:
            real(self, *args)
        finally:
            self.purgatory.add = add

    monkeypatch.setattr(Writes, "_answer", answer)
