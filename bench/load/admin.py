"""Open-loop administrative load through the brokers, each request is a row of its trace."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.load.changes import Change, Changes, TemporaryRefusal, TopicState, error_of
from bench.load.connection import Pool, text_of
from bench.load.schedule import achieved_per_s
from emulator.io.together import Share
from emulator.trace.rows import RequestRow, Row
from wire.errors import ErrorCode

RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""What Kafka's own admin client sends again. A topic just made may be unknown to the broker asked,
which is why UNKNOWN_TOPIC_OR_PARTITION is treated apart: by what was asked, and for how long."""

UNKNOWN_S: Final = 15.0
"""How long a broker may not know a topic that it is asked to delete. After that the topic is
deleted: a broker repeats a deletion at the next controller if the first did not answer."""
_ANOTHER_CONTROLLER: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE})
_IN_DOUBT: Final = frozenset(
    {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER}
)
"""After these errors a change may have been carried out, also after NOT_CONTROLLER: a leader that
resigns answers it to callers that wait for a commit, and the next leader may commit the records
(QuorumController.renounce; ``emulator/controller/machine.py``, ``suspend``)."""
_BACKOFF_S: Final = 0.1
SLOW_S: Final = 20.0
"""A change that waited for longer is printed, as one that was given up."""
_LISTED_ATTEMPTS_MAX: Final = 4
_SLOW_CHANGES_MAX: Final = 200


class GivenUp(NamedTuple):
    """A change that failed: its last error, and the first attempt that was answered with it."""

    api: str
    error: str
    partitions: int | None = None
    """Partitions of the topic if the change was carried out; None: the topic is deleted then."""
    sent_ns: int = 0
    answered_ns: int = 0
    """Monotonic clock; until then a broker may have sent the change to several controllers."""


@dataclass
class AdminResult:
    """The result of an ``AdminLoad``."""

    intended: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """API -> changes carried out."""
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(API, error) -> changes given up: answered with an error that no retry mends, or too late."""
    unsent: int = 0
    """Changes never sent: nothing was free until they counted as failed."""
    retried: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(API, error) -> attempts that were repeated."""
    not_now: list[TemporaryRefusal] = field(default_factory=list)
    """Those of them that were refused for a time only."""
    topics: dict[str, TopicState] = field(default_factory=dict)
    """Topics left, as they must look."""
    doubtful: set[str] = field(default_factory=set)
    """Topics of failed changes."""
    deleted: set[str] = field(default_factory=set)
    """Topics that were made, and deleted."""
    given_up: dict[str, GivenUp] = field(default_factory=dict)
    """Topic -> its change that failed."""
    slow: list[str] = field(default_factory=list)
    """Changes that waited for longer than ``SLOW_S``, or were given up, the first 200 of them: a
    line each, with the errors in their order and its longest attempts."""
    prefix: str = "load-"
    """Prefix of the names of all topics of the load."""
    elapsed_s: float = 0.0
    """To the last answer."""
    schedule_s: float = 0.0
    """To when a next change would have been due."""
    answered_ns: array[int] = field(default_factory=lambda: array("q"))
    """When each change was carried out, from the begin of the schedule."""

    @property
    def achieved_per_s(self) -> float:
        """What to hold against the rate, see ``schedule.achieved_per_s``.

        One late answer is one change less; it does not make the schedule longer.
        """
        return achieved_per_s(0, round(self.schedule_s * 1e9), self.answered_ns)

    def add(self, other: AdminResult) -> None:
        """Add the result of another share of the same schedule."""
        self.intended += other.intended
        self.answered_ns.extend(other.answered_ns)
        self.done += other.done
        self.failed += other.failed
        self.unsent += other.unsent
        self.retried += other.retried
        self.not_now += other.not_now
        self.topics |= other.topics
        self.doubtful |= other.doubtful
        self.deleted |= other.deleted
        self.given_up |= other.given_up
        self.slow += other.slow
        self.elapsed_s = max(self.elapsed_s, other.elapsed_s)
        self.schedule_s = max(self.schedule_s, other.schedule_s)


@dataclass(slots=True)
class _Attempt:
    """One attempt of a change, as far as it got."""

    error: ErrorCode
    sent_ns: int
    version: int = -1
    correlation_id: int = 0
    broker: str = ""
    answered_ns: int = 0

    def took_s(self) -> float:
        """Seconds until it was answered, or given up."""
        return (self.answered_ns - self.sent_ns) / 1e9

    def text(self) -> str:
        """The result of the attempt, as part of a sentence."""
        return f"{self.broker or 'no broker'} {self.error.name} after {self.took_s():.1f} s"


class _Due(NamedTuple):
    """When a change was to be asked for, and when this client turned to it."""

    intended_ns: int
    begun_ns: int


def _first_as_last(attempts: Sequence[_Attempt]) -> _Attempt:
    """The first attempt that was answered with the error of the last one."""
    return next(one for one in attempts if one.error is attempts[-1].error)


def _attempts_text(attempts: Sequence[_Attempt]) -> str:
    """How often each error came, in the order in which it came first, and the longest attempts."""
    errors = Counter(one.error.name for one in attempts)
    counts = ", ".join(f"{count} {name}" for name, count in errors.items())
    longest = sorted(attempts, key=_Attempt.took_s)[-_LISTED_ATTEMPTS_MAX:]
    return f"{counts}; longest: {', '.join(one.text() for one in attempts if one in longest)}"


class AdminLoad:
    """Changes at a fixed rate for a time; each is sent at its scheduled time.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        rate: changes per second.
        seconds: length of the schedule; answers may come later. None: until ``stop``.
        client_id: in each header, and in the trace; unique in a run.
        seed: of the choice of changes.
        replication_factor: of new topics.
        record: takes each row, ``TraceFile.append`` for one; none records nothing.
        give_up_s: from the intended instant; then the change counts as failed.
        prefix: of every topic's name.
        topics_wanted: about as many are kept; at most half as many changes are under way at once.
        connections: at most; a change that is due while all are used waits for one.
        one_broker: use the first broker found as long as it answers, not all that forward.
        share: which changes of the schedule are its own; ``topics_wanted`` and ``connections`` are
            divided, and ``seed``, ``prefix`` and ``client_id`` get its number.
        begin_ns: of the schedule, monotonic; None: when ``run`` is called.
        not_now: (API, error) of what may be refused for a time; it is asked again.
    """

    def __init__(
        self,
        bootstrap: str,
        rate: float,
        seconds: float | None,
        *,
        client_id: str = "admin-load",
        seed: int = 0,
        replication_factor: int = 2,
        record: Callable[[Row], None] | None = None,
        give_up_s: float = 60.0,
        prefix: str = "load",
        topics_wanted: int = 40,
        connections: int = 100,
        one_broker: bool = False,
        share: Share = Share(),  # noqa: B008 - immutable
        begin_ns: int | None = None,
        not_now: Collection[tuple[str, ErrorCode]] = (),
    ) -> None:
        self._rate = rate
        self._numbers: Iterable[int] = (
            itertools.count(share.index, share.of)
            if seconds is None
            else share.numbers(max(1, int(rate * seconds)))
        )
        self._stopped = asyncio.Event()
        # Where no topic is free each change would be one more topic: half of them are kept free.
        busy_max = max(1, share.part(topics_wanted) // 2)
        self._room = asyncio.Semaphore(min(share.part(connections), busy_max))
        self._client_id = client_id = share.named(client_id)
        self._record = record
        self._give_up_s = give_up_s
        self._not_now = not_now
        self._pool = Pool(bootstrap, client_id, itertools.count(1), one_broker=one_broker)
        self._changes = Changes(
            seed + share.index,
            prefix=share.named(prefix),
            replication_factor=replication_factor,
            topics_wanted=share.part(topics_wanted),
        )
        self._result = AdminResult(prefix=f"{prefix}-")
        self._begin_ns = begin_ns
        self._between_s = share.of / rate
        self._request_ids = itertools.count(1)

    async def run(self) -> AdminResult:
        """Run the schedule, wait for the last answers, return the result."""
        if self._begin_ns is None:
            self._begin_ns = time.monotonic_ns()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in self._numbers:
                    due_ns = self._begin_ns + round(number * 1e9 / self._rate)
                    if await self._stopped_before(due_ns):
                        break
                    tasks.create_task(self._carry_out(due_ns))
                    self._result.intended += 1
        finally:
            self._pool.close()
        return self.result

    def stop(self) -> None:
        """Begin no more changes; ``run`` returns when the last one is answered."""
        self._stopped.set()

    @property
    def result(self) -> AdminResult:
        """The result so far."""
        if self._begin_ns is not None:
            self._result.elapsed_s = max(0.0, (time.monotonic_ns() - self._begin_ns) / 1e9)
        self._result.schedule_s = self._result.intended * self._between_s
        self._result.topics = dict(self._changes.topics)
        self._result.doubtful = set(self._changes.doubtful)
        self._result.deleted = set(self._changes.deleted)
        return self._result

    def progress(self) -> str:
        """The progress of the load, in one line."""
        found = self._result
        done, failed = found.done.total(), found.failed.total() + found.unsent
        return (
            f"{found.intended} due, {done} done, {failed} failed, "
            f"{found.intended - done - failed} waiting"
        )

    async def _stopped_before(self, due_ns: int) -> bool:
        wait_s = (due_ns - time.monotonic_ns()) / 1e9
        if wait_s <= 0:
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), wait_s)
        return self._stopped.is_set()

    async def _carry_out(self, intended_ns: int) -> None:
        """Draw a change once there is room for it: what waits here holds no topic."""
        due = _Due(intended_ns, time.monotonic_ns())
        left_s = self._give_up_s - (due.begun_ns - intended_ns) / 1e9
        end_s = asyncio.get_running_loop().time() + left_s
        async with self._held(end_s) as held:
            if held:
                await self._change(self._changes.draw(), due, end_s)
            else:
                self._note_unsent(due)

    @contextlib.asynccontextmanager
    async def _held(self, end_s: float) -> AsyncIterator[bool]:
        """Room for one change; False: there was none until ``end_s`` of the loop's clock."""
        try:
            async with asyncio.timeout_at(end_s):
                await self._room.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield asyncio.get_running_loop().time() < end_s
        finally:
            self._room.release()

    async def _change(self, change: Change, due: _Due, end_s: float) -> None:
        """Try until it is done, cannot be mended, or counts as failed at ``end_s``."""
        in_doubt = False
        attempts: list[_Attempt] = []
        while True:
            attempt = await self._attempt(change, end_s)
            attempt.answered_ns = time.monotonic_ns()
            attempts.append(attempt)
            error = attempt.error
            done = error is ErrorCode.NONE or (in_doubt and error is change.done_already)
            if not_now := (change.api, error) in self._not_now:
                span = attempt.sent_ns, attempt.answered_ns
                self._result.not_now.append(
                    TemporaryRefusal(change.api, change.topic, error.name, *span)
                )
            late = asyncio.get_running_loop().time() + _BACKOFF_S > end_s
            if done or late or not (not_now or self._may_repeat(change, attempts)):
                self._note(change, due, attempts, done=done)
                return
            in_doubt |= bool(attempt.broker) and error in _IN_DOUBT
            self._result.retried[change.api, error.name] += 1
            await asyncio.sleep(_BACKOFF_S)

    @staticmethod
    def _may_repeat(change: Change, attempts: Sequence[_Attempt]) -> bool:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if attempts[-1].error is not unknown:
            return attempts[-1].error in RETRIABLE
        since_s = (attempts[-1].answered_ns - _first_as_last(attempts).answered_ns) / 1e9
        return {"CreateTopics": False, "DeleteTopics": since_s < UNKNOWN_S}.get(change.api, True)

    async def _attempt(self, change: Change, end_s: float) -> _Attempt:
        """Try once; a lost connection is NETWORK_EXCEPTION, as Kafka's clients have it.

        No answer in half a minute or until ``end_s``, of the loop's clock, is REQUEST_TIMED_OUT.
        """
        made = _Attempt(ErrorCode.NETWORK_EXCEPTION, sent_ns=time.monotonic_ns())
        connection = None
        try:
            async with asyncio.timeout_at(end_s):
                connection = await self._pool.take()
                made.sent_ns = time.monotonic_ns()
                made.broker = text_of(connection.address)
                made.version = connection.version_of(type(change.request))
                response, made.correlation_id = await connection.call(change.request, made.version)
        except OSError as error:
            if isinstance(error, TimeoutError):
                made.error = ErrorCode.REQUEST_TIMED_OUT
            if connection is not None:
                self._pool.put(connection, usable=False)
            return made
        made.error = error_of(change.api, response)
        self._pool.put(connection, usable=made.error not in _ANOTHER_CONTROLLER)
        return made

    def _note_unsent(self, due: _Due) -> None:
        """Enter a change that got no room in time: no topic was chosen, and nothing was asked."""
        self._result.unsent += 1
        none = _Attempt(ErrorCode.REQUEST_TIMED_OUT, time.monotonic_ns())
        self._row(self._changes.draw_api(), [none], due)

    def _note(self, change: Change, due: _Due, attempts: Sequence[_Attempt], *, done: bool) -> None:
        """Enter how a change ended: in the book, and as one row however many attempts it took."""
        if any(one.broker for one in attempts):
            late = any(one.broker and not one.correlation_id for one in attempts)
            self._changes.settle(change, done=done, late=late)
        else:
            self._changes.withdraw(change)
        last = attempts[-1]
        waited_s = (time.monotonic_ns() - due.intended_ns) / 1e9
        if (waited_s > SLOW_S or not done) and len(self._result.slow) < _SLOW_CHANGES_MAX:
            self._result.slow.append(
                f"{change.api} {change.topic}: {waited_s:.1f} s, {_attempts_text(attempts)}"
            )
        if done:
            assert self._begin_ns is not None
            self._result.done[change.api] += 1
            self._result.answered_ns.append(time.monotonic_ns() - self._begin_ns)
        else:
            self._result.failed[change.api, last.error.name] += 1
            first = _first_as_last(attempts)
            wanted = None if change.after is None else change.after.partitions
            self._result.given_up[change.topic] = GivenUp(
                change.api, last.error.name, wanted, first.sent_ns, first.answered_ns
            )
        self._row(change.api, attempts, due, done=done)

    def _row(
        self, api: str, attempts: Sequence[_Attempt], due: _Due, *, done: bool = False
    ) -> None:
        last = attempts[-1]
        if self._record is not None:
            self._record(
                RequestRow(
                    next(self._request_ids),
                    api,
                    last.version,
                    self._client_id,
                    last.correlation_id,
                    time.monotonic_ns(),
                    error_code=int(ErrorCode.NONE if done else last.error),
                    intended_ns=due.intended_ns,
                    sent_ns=last.sent_ns,
                    begun_ns=due.begun_ns,
                    first_sent_ns=attempts[0].sent_ns,
                )
            )
