"""Times of an ensemble, by few and slow writes into a folder of its own.

The first request is of one operation, ten of them a second; multis of more operations follow. One
request is under way at a time, reads and removals too, and a pause of nineteen times as long
follows each: so the ensemble works for the probe in a twentieth of the time at most. Between any
two multis a single operation is timed: once it takes twice as long as at first, the probe ends. All
that it made is removed, at its end or, if it was killed, by the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from bench.predict.trace import fit

T = TypeVar("T")
FOLDER: Final = "/kraft-bridge-predict"
MARK: Final = b"made by kraft-bridge predict, which removes it"
LEVELS: Final = (1, 10, 100, 400)
"""Operations of one multi."""
SAMPLES: Final = 8
FIRST_PER_S: Final = 10.0
SHARE: Final = 0.05
SLOWER: Final = 2.0
LIMIT_S: Final = 60.0
"""No write begins after it."""
STALL_S: Final = 1.0
"""What takes longer is a stall, in which the ensemble does nothing: no pause is for more."""
ANSWER_S: Final = 15.0
"""How long an answer is waited for: kazoo itself waits for ever while it connects again."""
CLOSE_S: Final = 45.0
"""How long the removal is tried: an ensemble that went away for a moment comes back."""
DATA: Final = b"x" * 150
"""A partition's state has about 80 bytes, a topic of 10 partitions 250."""
_RUNNING: Final = f"{FOLDER}/running"
_TWO: Final = "another probe of this ZooKeeper is running"
_NEVER: Final = (
    ConnectionClosedError,
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    SessionExpiredError,
    TimeoutError,
)


class ProbeError(Exception):
    """The probe cannot be, or has ended early; the text is one sentence.

    ``lost``: ZooKeeper does not answer any more.
    """

    def __init__(self, why: str, *, lost: bool = False) -> None:
        super().__init__(why)
        self.lost = lost


class Writes(Protocol):
    """What is timed."""

    def make(self, count: int) -> None:
        """Have so many znodes."""

    def write(self, operations: int) -> None:
        """Write that many znodes by one request."""


@dataclass(slots=True)
class Probed:
    """What was found. ``stopped``: why before its last step; may be empty."""

    points: list[tuple[int, float]] = field(default_factory=list)
    """Operations and seconds of each request that was timed."""
    slowest_s: float = 0.0
    """Of the requests of one operation, stalls too."""
    read_s: float = 0.0
    written: int = 0
    """Znodes created and written over."""
    removed: int = 0
    stopped: str = ""
    left: int = 0
    """Removed of an earlier probe, which was killed."""
    share: float = 0.0
    """Of its time a request was under way."""

    @property
    def fitted(self) -> tuple[float, float]:
        """Seconds of a request, and more for each operation."""
        return fit(self.points)

    @property
    def known(self) -> bool:
        """Whether requests of several sizes were timed."""
        return max(operations for operations, _ in self.points) > LEVELS[1]


@dataclass(slots=True)
class Pace:
    """Times requests, and waits after each as long as its share asks for."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    began_s: float = math.inf
    busy_s: float = 0.0

    def timed(self, work: Callable[[], object], least_s: float = 0.0) -> float:
        """Seconds that it took; the next may begin ``least_s`` after it began, or later."""
        took, _ = self.asked(work, least_s)
        return took

    def asked(self, work: Callable[[], T], least_s: float = 0.0) -> tuple[float, T]:
        """The same, with the answer."""
        began = self.clock()
        self.began_s = min(self.began_s, began)
        answer = work()
        took = self.clock() - began
        self.busy_s += min(took, STALL_S)
        self.sleep(max(min(took, STALL_S) * (1 / SHARE - 1), least_s - took))
        return took, answer

    @property
    def share(self) -> float:
        """Of the time since the first a request was under way; of a stall STALL_S count."""
        return self.busy_s / max(self.clock() - self.began_s, self.busy_s, 1e-9)


def measure(writes: Writes, pace: Pace, found: Probed) -> None:
    """Fill in the points, level by level.

    Args:
        writes: to the ensemble.
        pace: of the requests.
        found: is filled, so that it is there if a write fails.
    """
    end_s = pace.clock() + LIMIT_S

    def once(operations: int) -> float:
        if pace.clock() > end_s:
            raise _EndError(f"after {LIMIT_S:g} s")
        least_s = 1 / FIRST_PER_S if operations == 1 else 0.0
        took = pace.timed(partial(writes.write, operations), least_s)
        found.written += operations
        found.points.append((operations, took))
        if operations == 1:
            found.slowest_s = max(found.slowest_s, took)
        return took

    def made(count: int, more: int) -> None:
        pace.timed(partial(writes.make, count), 1 / FIRST_PER_S)
        found.written += more

    made(1, 1)
    singles = [once(1)]
    with contextlib.suppress(_EndError):
        while len(singles) < SAMPLES:
            singles.append(once(1))
    first = statistics.median(singles)
    try:
        for fewer, operations in itertools.pairwise(LEVELS):
            made(operations, operations - fewer)
            _level(operations, once, first)
    except _EndError as end:
        found.stopped = str(end)
    # One stall of a size that was asked for once would be the slope of the line.
    found.points = [one for one in found.points if one[1] <= STALL_S] or found.points


def _level(operations: int, once: Callable[[int], float], first: float) -> None:
    """Requests of one size, each followed by one of one operation."""
    singles: list[float] = []
    for _ in range(SAMPLES):
        pair = once(operations), once(1)
        singles.append(pair[1])
        at = f"at requests of {operations} operations"
        if max(pair) > STALL_S:
            raise _EndError(f"{at}: ZooKeeper stalled for {max(pair):.1f} s")
        if len(singles) > 2 and (now := statistics.median(singles)) >= SLOWER * first:
            raise _EndError(f"{at}: one of 1 took {now * 1e3:.1f} ms, not {first * 1e3:.1f}")


class _EndError(Exception):
    """The probe ends early; the text says why."""


class Folder:
    """The znodes of a probe in ZooKeeper.

    Its mark is an ephemeral znode, so a folder without one is of a probe that was killed. Whoever
    makes the mark owns the folder, as long as its session lives.

    Args:
        client: connected.
        pace: of the requests that :func:`measure` does not pace.
        owned: whether the znodes are to be its login's alone.
    """

    def __init__(self, client: KazooClient, pace: Pace, *, owned: bool) -> None:
        self._client = client
        self._pace = pace
        self._acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE if owned else OPEN_ACL_UNSAFE
        self._have = 0
        self._session: int | None = None
        self._beside = 2
        self._made = 0

    def make(self, count: int) -> None:
        """See Writes."""
        fresh = range(self._have, count)
        self._commit([("create", (_name(number), DATA), {"acl": self._acl}) for number in fresh])
        self._have = count

    def write(self, operations: int) -> None:
        """See Writes."""
        self._commit([("set_data", (_name(number), DATA), {}) for number in range(operations)])

    def read(self) -> None:
        """Ask for one znode."""
        self._ask(self._client.get_async, FOLDER)

    def open(self, patience_s: float) -> tuple[int, int]:
        """Begin; returns how many znodes were made, and of an earlier probe removed.

        Args:
            patience_s: how long to wait for the end of another probe, or of the session of one
                that was killed a moment ago.

        Raises:
            ProbeError: the place is another's.
        """
        if self._paced(self._client.exists_async, "/") is None:
            raise ProbeError(f"the chroot {self._client.chroot} does not exist")
        end = self._pace.clock() + patience_s
        while True:
            there = self._paced(self._client.exists_async, FOLDER) is not None
            try:
                if there and self._is_free():
                    self._beside = 1  # the folder is the other's
                    self._claim()
                    return 1, self._clear() + 1
                if not there:
                    self._pace.timed(self._create, 1 / FIRST_PER_S)
                    return 2, 0
            except (NoNodeError, NodeExistsError):
                pass  # another probe was faster, or has just ended
            if self._pace.clock() > end:
                raise ProbeError(_TWO)
            self._pace.sleep(0.2)

    def _is_free(self) -> bool:
        data, _ = self._paced(self._client.get_async, FOLDER)
        if data != MARK:
            raise ProbeError(f"{FOLDER} is there and was not made by kraft-bridge predict")
        self._list()
        return self._paced(self._client.exists_async, _RUNNING) is None

    def _create(self) -> None:
        mark = {"acl": self._acl, "ephemeral": True}
        with self._begun():
            self._commit(
                [("create", (FOLDER, MARK), {"acl": self._acl}), ("create", (_RUNNING, b""), mark)]
            )

    def _claim(self) -> None:
        with self._begun():
            self._paced(self._client.create_async, _RUNNING, b"", acl=self._acl, ephemeral=True)

    @contextlib.contextmanager
    def _begun(self) -> Iterator[None]:
        """From the request on it may be there, whatever ends the wait for its answer."""
        self._session, self._made = self._session_id(), max(self._made, self._beside)
        try:
            yield
        except (NoNodeError, NodeExistsError, NoAuthError):
            self._session = None
            raise

    def _session_id(self) -> int | None:
        found = self._client.client_id
        return found[0] if found else None

    @property
    def begun(self) -> bool:
        """Whether there may be something to remove."""
        return self._session is not None

    def close(self) -> int:
        """Remove all that is there; returns how many znodes.

        Raises:
            ProbeError: another probe has the folder, as the session has expired.
        """
        end = self._pace.clock() + CLOSE_S
        while True:
            try:
                self._keep_claim()
                self._made = max(self._made, self._clear() + self._beside)
                self._delete([_RUNNING, FOLDER])
            except NoNodeError:
                return self._made  # an answer was lost, and it was done
            except NodeExistsError as error:
                raise ProbeError(_TWO) from error
            except _NEVER:
                if self._pace.clock() > end:
                    raise
                self._pace.sleep(0.5)
            else:
                return self._made

    def _keep_claim(self) -> None:
        """The mark went with the session if that has expired; kazoo goes on in a new one."""
        mark = self._paced(self._client.exists_async, _RUNNING)
        if mark is None:
            self._claim()
        elif mark.ephemeralOwner != self._session_id():
            raise NodeExistsError

    def _clear(self) -> int:
        """Remove the znodes of requests; returns how many there were."""
        paths = self._list()
        for at in range(0, len(paths), LEVELS[2]):
            self._pace.timed(partial(self._delete, paths[at : at + LEVELS[2]]))
        return len(paths)

    def _delete(self, paths: Sequence[str]) -> None:
        self._commit([("delete", (one,), {}) for one in paths])

    def _list(self) -> list[str]:
        names = self._paced(self._client.get_children_async, FOLDER)
        paths = [f"{FOLDER}/{one}" for one in sorted(names) if one != "running"]
        if strange := [one for one in paths if not one.startswith(f"{FOLDER}/z-")]:
            raise ProbeError(f"{strange[0]} is not of kraft-bridge predict: nothing is removed")
        return paths

    def _paced(self, begin: Callable[..., Any], *more: Any, **named: Any) -> Any:
        return self._pace.asked(partial(self._ask, begin, *more, **named))[1]

    def _ask(self, begin: Callable[..., Any], *more: Any, **named: Any) -> Any:
        return begin(*more, **named).get(timeout=ANSWER_S)

    def _commit(self, operations: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
        if self._session is not None and self._session_id() not in (self._session, None):
            # kazoo goes on in a new session, and another probe may have the folder by now.
            raise SessionExpiredError
        transaction = self._client.transaction()
        for name, arguments, options in operations:
            getattr(transaction, name)(*arguments, **options)
        results = self._ask(transaction.commit_async) if operations else []
        for one in results:
            if isinstance(one, Exception) and not isinstance(
                one, RolledBackError | RuntimeInconsistency
            ):
                raise one


def _name(number: int) -> str:
    return f"{FOLDER}/z-{number:03d}"


def probe(
    client: KazooClient, *, owned: bool, pace: Pace | None = None, patience_s: float = 30.0
) -> Probed:
    """Measure, and remove everything again.

    Args:
        client: connected, below its chroot.
        owned: whether the znodes get ACLs.
        pace: of the requests.
        patience_s: see :meth:`Folder.open`.

    Raises:
        ProbeError: it cannot be; what is left then is removed by the next probe.
    """
    pace = pace or Pace()
    found, folder = Probed(), Folder(client, pace, owned=owned)
    try:
        try:
            found.written, found.left = folder.open(patience_s)
            times = [pace.timed(folder.read) for _ in range(SAMPLES)]
            found.read_s = statistics.median(times)
            measure(folder, pace, found)
        finally:
            if folder.begun:
                found.removed = folder.close()
    except NoAuthError as error:
        raise ProbeError(
            f"this login may not write {FOLDER}: give the properties of one that may with -c"
            f"{'' if found.removed or not found.written else f'; {FOLDER} is left there'}"
        ) from error
    except _NEVER as error:
        left = folder.begun and not found.removed
        what = f"the next probe removes what is left in {FOLDER}" if left else "nothing is left"
        why = f"ZooKeeper does not answer any more ({type(error).__name__}): {what}"
        raise ProbeError(why, lost=True) from error
    except KazooException as error:
        raise ProbeError(f"{FOLDER}: ZooKeeper refuses: {type(error).__name__}") from error
    found.share = pace.share
    return found
