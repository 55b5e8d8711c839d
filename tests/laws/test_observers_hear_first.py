"""Brokers in KRaft mode hear of a change before its caller does; its answer waits for none of them.

A caller may ask one of them at once for what it has just made, as a rule the one that passed its
request on. So in the step of the commit the Fetches that wait are answered before it. Whether one
waits, or is at rest because many were told a moment ago, changes nothing for the caller.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.answers import Answers
from emulator.raft.layout import TOPIC, TOPIC_ID
from emulator.seam import (
    Accepted,
    Close,
    Effect,
    Event,
    FileWritten,
    Received,
    Send,
    Synced,
    SyncFile,
    WriteFile,
)
from tests.kit.laws import examples
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.world import create
from tests.unit.node.test_machine import IDENTITY
from tests.unit.node.test_no_request_ends_the_node import ENVELOPE, Peers, header
from wire import messages as m
from wire.frame import decode_response, encode_request, framed

FETCH, CREATE_TOPICS = (1, 17), (19, 7)
STEPS = ("fetch", "fetch", "create", "create", "sync", "sync", "time")


class Story(Peers):
    """Observers fetch, brokers pass on requests for topics, and the disk takes its time."""

    def __init__(self, seed: int, observers: int) -> None:
        self.late: list[Event] | None = None
        """What the disk has done and the node does not know yet."""
        super().__init__(topics=False)
        self.late = []
        self.rng = Random(seed)
        self.log = self.node.raft
        self.observers: dict[int, int] = {}
        """Observer -> the connection on which its Fetch waits, or -1."""
        for observer in range(observers):
            self.observers[observer] = -1
        self.waiting: dict[int, int] = {}
        """Connection of a caller -> the offset below which all must be committed for its answer."""
        self.heard_first = 0

    def perform(self, effects: list[Effect]) -> None:
        if self.late is None:
            super().perform(effects)
            return
        for effect in effects:
            match effect:
                case SyncFile(token=token):
                    self.late.append(Synced(token))
                case WriteFile(path=path):
                    self.late.append(FileWritten(path))
        self.judge([one.conn for one in effects if isinstance(one, Send)])
        assert not any(isinstance(one, Close) for one in effects)

    def judge(self, conns: list[int]) -> None:
        callers = [at for at, conn in enumerate(conns) if conn in self.waiting]
        fetches = [at for at, conn in enumerate(conns) if conn in self.observers.values()]
        if callers and fetches:
            assert max(fetches) < min(callers), "a caller hears first"
            self.heard_first += 1
        for at in callers:
            del self.waiting[conns[at]]
        for at in fetches:
            (observer,) = (one for one, conn in self.observers.items() if conn == conns[at])
            self.observers[observer] = -1
        late = [end for end in self.waiting.values() if end <= self.log.high_watermark]
        assert not late, "an answer waits though its change is committed"

    def step(self, name: str) -> None:
        match name:
            case "fetch":
                self.fetch(self.rng.choice([*self.observers] or [0]))
            case "create":
                self.pass_on(create(f"t{self.rng.randrange(1 << 60)}", 1, 1))
            case "time":
                self.advance(self.rng.choice((1, 5, 100)))
            case "sync":
                late, self.late = self.late or [], []
                self.perform(self.node.step(late, self.now_ms))

    def fetch(self, observer: int) -> None:
        """The observer has all that is durable, and waits for more."""
        if self.observers.get(observer, 0) >= 0:
            return
        end = self.log.high_watermark
        epoch = self.log.epoch_at(end - 1)
        partition = m.FetchRequest.FetchPartition(
            current_leader_epoch=self.log.leader_epoch,
            fetch_offset=end,
            last_fetched_epoch=-1 if epoch is None else epoch,
        )
        topic = m.FetchRequest.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])
        request = m.FetchRequest(
            cluster_id=IDENTITY.cluster_id,
            replica_state=m.FetchRequest.ReplicaState(replica_id=observer),
            max_wait_ms=500,
            max_bytes=1 << 20,
            topics=[topic],
        )
        self.observers[observer] = self.conn + 1
        self.send(encode_request(header(*FETCH), request))

    def pass_on(self, request: Any) -> None:
        end = self.log.log_end_offset
        inner = encode_request(header(*CREATE_TOPICS), request)
        self.send(encode_request(header(ENVELOPE, 0), enveloped(inner)))
        assert self.log.log_end_offset > end, "it was accepted"
        self.waiting[self.conn] = self.log.log_end_offset

    def send(self, data: bytes) -> None:
        self.conn += 1
        opened = Accepted(self.conn, "CONTROLLER", b"\x7f\0\0\1")
        events: list[Event] = [opened, Received(self.conn, framed(data))]
        self.perform(self.node.step(events, self.now_ms))


@pytest.mark.requirement("I05")
@examples(40)
@given(
    st.integers(0, 2**32),
    st.integers(0, 9),
    st.lists(st.sampled_from(STEPS), min_size=3, max_size=30),
)
def test_observers_are_told_first_and_waited_for_by_nobody(
    seed: int, observers: int, steps: list[str]
) -> None:
    story = Story(seed, observers)
    for name in steps:
        story.step(name)


def told(story: Story) -> list[int]:
    """Two observers wait, a topic is made: the connections that are answered at its commit."""
    story.step("sync")
    story.fetch(0)
    story.fetch(1)
    story.pass_on(create("new", 1, 1))
    conns: list[int] = []
    while story.waiting:
        late, story.late = story.late or [], []
        effects = story.node.step(late, story.now_ms)
        conns += [one.conn for one in effects if isinstance(one, Send)]
        story.perform(effects)
    return conns


def test_what_the_observers_get_holds_the_change() -> None:
    story = Story(0, 2)
    seen: list[bytes] = []
    step = story.node.step

    def watched(events: list[Event], now_ms: int) -> list[Effect]:
        effects = step(events, now_ms)
        seen.extend(one.data for one in effects if isinstance(one, Send))
        return effects

    story.node.step = watched  # type: ignore[method-assign]
    *fetchers, caller = told(story)
    assert len(fetchers) == 2
    assert caller == story.conn
    for data in seen[-3:-1]:
        partition = decode_response(*FETCH, data[4:])[1].responses[0].partitions[0]
        assert b"new" in partition.records
        assert partition.high_watermark == story.log.high_watermark


def test_a_caller_that_hears_first_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Answers.take

    def callers_first(self: Answers) -> list[Any]:
        return sorted(take(self), key=lambda one: one.call.header.api_key == FETCH[0])

    monkeypatch.setattr(Answers, "take", callers_first)
    with pytest.raises(AssertionError, match="a caller hears first"):
        told(Story(0, 2))


def test_an_answer_that_waits_for_an_observer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Answers.take

    def waits(self: Answers) -> list[Any]:
        found = take(self)
        self._ready += [one for one in found if one.call.header.api_key == CREATE_TOPICS[0]]
        return [one for one in found if one not in self._ready]

    monkeypatch.setattr(Answers, "take", waits)
    with pytest.raises(AssertionError, match="an answer waits"):
        told(Story(0, 0))
