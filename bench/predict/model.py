"""The model of docs/blocking.md: when the bound on changes not in ZooKeeper is reached.

Nothing of the controller is used here, so that both can be compared: tests run the real gate and
write-behind beside it. Times are in seconds, rates in changes each second.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

RESUME: Final = 0.75
"""Waiting ends below this share of the bound."""
MULTI_OPS: Final = 400
"""Data operations of one multi, at most."""
CHAIN_OPS: Final = 3
"""Operations that each multi has beside them: two counters, and the check of the claim."""
COMMIT_S: Final = 0.004
APPEND_S: Final = 0.0006
"""What no probe of ZooKeeper shows of a controller: docs/benchmarks.md, its slower machine."""
OPERATION_S: Final = 15e-6
"""Where all requests to ZooKeeper were alike: docs/benchmarks.md; 65,700 znodes a second by `bench
run raw-limit`."""
SHARE: Final = 0.2
LEAST_S: Final = 0.25
"""A prediction holds within 20 % or 250 ms, whichever is more."""
_PRECISION: Final = 1e-4
_RATE_MAX: Final = 1e6
_SETTLED: Final = 3
"""Answers after a stall: to what it held up, to what came meanwhile, to what came during that."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one change costs: ``records`` of the log, ``operations`` on znodes."""

    records: int
    operations: int


def creation(partitions: int, configs: int = 0) -> Change:
    """The creation of one topic: a record of the topic, of each partition and each config.

    Its znodes: the topic, its folder of partitions, its config; two for each partition.
    """
    return Change(1 + partitions + configs, 3 + 2 * partitions)


@dataclass(frozen=True, slots=True)
class Speed:
    """What a change waits for.

    ``request_s``: a multi without data, there and back. ``operation_s``: more for each operation.
    ``commit_s``: appended until committed. ``append_s``: of the controller, for one change.
    """

    request_s: float
    operation_s: float = 0.0
    commit_s: float = 0.0
    append_s: float = 0.0

    def unit_s(self, operations: float) -> float:
        """Time until ZooKeeper holds so many operations that were sent together.

        They are cut into multis, of which two or more are in flight: the farther away, the more.
        """
        multis = max(1, math.ceil(operations / MULTI_OPS))
        depth = min(max(2, 1 + math.ceil(self.request_s / 0.005)), 8)
        trips = math.ceil(multis / depth)
        return self.request_s * trips + self.operation_s * (operations + CHAIN_OPS * multis)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A change that is ready to be appended at ``at_s``."""

    at_s: float
    change: Change


@dataclass(frozen=True, slots=True)
class Stall:
    """ZooKeeper does nothing for ``seconds``."""

    begin_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        """When it goes on."""
        return self.begin_s + self.seconds


@dataclass(slots=True)
class Blocked:
    """What waited at the bound.

    ``begins_s``: the first wait; None: nothing waits. ``union_s``: time in which at least one
    operation waited. ``total_s``: sum of the waits. ``ends``: False if the waiting did not end.
    """

    begins_s: float | None = None
    union_s: float = 0.0
    total_s: float = 0.0
    operations: int = 0
    longest_s: float = 0.0
    most_records: int = 0
    ends: bool = True


@dataclass(slots=True)
class _Gate:
    """The records counted, who waits, and the one unit on its way to ZooKeeper."""

    bound: int
    speed: Speed
    stalls: Sequence[Stall]
    count: int = 0
    reached: bool = False
    waiting: deque[Arrival] = field(default_factory=deque)
    uncommitted: deque[Arrival] = field(default_factory=deque)
    committed: Change = Change(0, 0)
    flight: Change | None = None
    acked_s: float = math.inf
    free_s: float = 0.0
    """When the controller has appended what it admitted last."""
    blocked: Blocked = field(default_factory=Blocked)
    since_s: float = 0.0
    answers: int = 0

    def next_s(self) -> float:
        """When something happens next, but for arrivals."""
        committed = self.uncommitted[0].at_s + self.speed.commit_s if self.uncommitted else math.inf
        return min(self.acked_s, committed, self.released_s())

    def released_s(self) -> float:
        """When the first of those that wait is appended."""
        return math.inf if self.reached or not self.waiting else self.free_s + self.speed.append_s

    def happens(self, now_s: float) -> None:
        """An answer of ZooKeeper; who waits no more; commits, which are then sent together."""
        if self.acked_s <= now_s:
            assert self.flight is not None
            self.count -= self.flight.records
            self.answers += 1
            self.flight, self.acked_s = None, math.inf
            if self.reached and self.count < RESUME * self.bound:
                self.reached, self.free_s = False, max(self.free_s, now_s)
        while self.released_s() <= now_s:
            self.admit_first(now_s)
        records, operations = self.committed.records, self.committed.operations
        while self.uncommitted and self.uncommitted[0].at_s + self.speed.commit_s <= now_s:
            one = self.uncommitted.popleft().change
            records, operations = records + one.records, operations + one.operations
        self.committed = Change(records, operations)
        if self.flight is None and records:
            self.flight, self.committed = self.committed, Change(0, 0)
            self.acked_s = _worked(now_s, self.speed.unit_s(operations), self.stalls)

    def arrives(self, one: Arrival) -> None:
        """It is appended, or waits."""
        if not self.reached and not self.waiting:
            self.append(one.change, one.at_s)
            return
        if not self.waiting:
            self.since_s = one.at_s
        if self.blocked.begins_s is None:
            self.blocked.begins_s = one.at_s
        self.waiting.append(one)

    def append(self, change: Change, now_s: float) -> None:
        """Count it; what is admitted last may exceed the bound."""
        self.free_s = now_s
        self.count += change.records
        self.blocked.most_records = max(self.blocked.most_records, self.count)
        self.uncommitted.append(Arrival(now_s, change))
        self.reached = bool(self.bound) and self.count >= self.bound

    def admit_first(self, now_s: float) -> None:
        """One wait is over."""
        first = self.waiting.popleft()
        waited_s = now_s - first.at_s
        self.blocked.operations += 1
        self.blocked.total_s += waited_s
        self.blocked.longest_s = max(self.blocked.longest_s, waited_s)
        if not self.waiting:
            self.blocked.union_s += now_s - self.since_s
        self.append(first.change, now_s)

    def cut(self, now_s: float) -> Blocked:
        """What waited up to now; those that still do have waited so long."""
        found = self.blocked
        if self.waiting:
            waits = [now_s - one.at_s for one in self.waiting]
            found.operations += len(waits)
            found.total_s += sum(waits)
            found.longest_s = max(found.longest_s, *waits)
            found.union_s += now_s - self.since_s
            found.ends = False
        return found


def _worked(begin_s: float, seconds: float, stalls: Sequence[Stall]) -> float:
    """When so much work ends that begins then; none is done in a stall."""
    end_s = begin_s + seconds
    for stall in stalls:
        if stall.begin_s < end_s and begin_s < stall.end_s:
            end_s += stall.end_s - max(begin_s, stall.begin_s)
    return end_s


def replay(
    arrivals: Iterable[Arrival],
    bound: int,
    speed: Speed,
    stalls: Sequence[Stall] = (),
    until_s: float = math.inf,
) -> Blocked:
    """Send changes through a gate of any bound, as they came.

    Args:
        arrivals: in order of time.
        bound: records; 0: none.
        speed: of the others.
        stalls: of ZooKeeper, in order of time.
        until_s: when it is cut off at the latest. Arrivals without end are cut off when the last
            stall is over and nothing waits any more.
    """
    gate = _Gate(bound, speed, stalls)
    calm_s = max((each.end_s for each in stalls), default=0.0)
    source = iter(arrivals)
    one = next(source, None)
    seen = answers = 0
    while True:
        arrives_s = math.inf if one is None else one.at_s
        now_s = min(arrives_s, gate.next_s())
        if now_s == math.inf:
            return gate.cut(0.0)
        if now_s > until_s:
            return gate.cut(until_s)
        if one is not None and arrives_s < gate.next_s():
            gate.arrives(one)
            one = next(source, None)
            continue
        gate.happens(now_s)
        calm = now_s > calm_s and not gate.waiting
        answers = answers + int(gate.answers > seen) if calm else 0
        seen = gate.answers
        if until_s < math.inf and stalls and answers >= _SETTLED:
            return gate.cut(now_s)


def even(rate: float, change: Change) -> Iterator[Arrival]:
    """One change after the other, without end."""
    return (Arrival(number / rate, change) for number in itertools.count())


def poisson(rate: float, change: Change, seed: int) -> Iterator[Arrival]:
    """Changes that know nothing of each other, without end."""
    random, at_s = Random(seed), 0.0
    while True:
        at_s += random.expovariate(rate)
        yield Arrival(at_s, change)


def border(change: Change, bound: int, speed: Speed) -> float:
    """The rate at which blocking begins without any stall: B / (2 r S), and S grows with the rate.

    Of the records counted when an answer comes, one part is what it answers, which gathered while
    the request before it was under way; the other came since. Infinite without a bound.
    """
    if not bound:
        return math.inf
    low, high = 0.0, _RATE_MAX
    while high - low > _PRECISION * high:
        rate = (low + high) / 2
        if _peak(change, rate, speed, bound) < bound:
            low = rate
        else:
            high = rate
    return low


def _peak(change: Change, rate: float, speed: Speed, bound: int) -> float:
    """Records counted at most at that rate; ``bound`` if they are as many or grow without end."""
    took_s = 0.0
    while True:
        gathered = max(1.0, rate * took_s)
        again_s = speed.unit_s(gathered * change.operations)
        peak = rate * change.records * (2 * again_s + speed.commit_s)
        if peak >= bound or again_s - took_s < _PRECISION * again_s:
            return min(peak, bound)
        took_s = again_s


def stalled(change: Change, rate: float, bound: int, speed: Speed, seconds: float) -> Blocked:
    """What a stall does to even arrivals; ``begins_s`` counts from its beginning, 0: not later."""
    lead_s = max(1.0, 20 * speed.unit_s(change.operations))
    stall = Stall(lead_s, seconds)
    # Beyond what ZooKeeper or the controller takes it never ends.
    taken = rate < border(change, bound, speed) and rate * speed.append_s < 1
    lasts_s = 10 * seconds + 60 if taken else 1.0
    until_s = stall.end_s + lasts_s
    found = replay(even(rate, change), bound, speed, [stall], until_s)
    if found.begins_s is not None:
        found.begins_s = max(0.0, found.begins_s - lead_s)
    return found


def channel(commit_s: float, hop_s: float) -> float:
    """Changes that one broker forwards each second: one at a time, each until it is committed."""
    return 1 / (commit_s + hop_s)


def holds(predicted_s: float, measured_s: float) -> bool:
    """Whether a blocked time is as predicted.

    >>> holds(0.0, 0.25), holds(0.0, 0.26), holds(8.1, 10.0), holds(7.9, 10.0)
    (True, False, True, False)
    """
    return abs(predicted_s - measured_s) <= max(SHARE * measured_s, LEAST_S)


def enough(change: Change, rate: float, speed: Speed, seconds: float) -> int:
    """The smallest bound, in records, under which no change waits in a stall of so many seconds."""
    return stalled(change, rate, 0, speed, seconds).most_records + 1
