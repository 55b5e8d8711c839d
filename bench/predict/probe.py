"""Times of an ensemble, by few and slow writes into a folder of its own.

The first request is of one operation, ten of them a second; multis of more operations follow. A
pause after each keeps them to a twentieth of what the ensemble took of them one after the other.
Between any two a single operation is timed: once it takes twice as long as at first, the probe
ends. All that it made is removed, at its end or, if it was killed, by the next one.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

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
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from bench.predict.trace import fit

FOLDER: Final = "/kraft-bridge-predict"
MARK: Final = b"made by kraft-bridge predict, which removes it"
LEVELS: Final = (1, 10, 100, 400)
"""Operations of one multi."""
SAMPLES: Final = 8
FIRST_PER_S: Final = 10.0
SHARE: Final = 0.05
SLOWER: Final = 2.0
LIMIT_S: Final = 60.0
"""No multi begins after it."""
DATA: Final = b"x" * 150
"""A partition's state has about 80 bytes, a topic of 10 partitions 250."""
_RUNNING: Final = f"{FOLDER}/running"
_TWO: Final = "another probe of this ZooKeeper is running"
_NEVER: Final = (
    ConnectionClosedError,
    ConnectionLoss,
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
    read_s: float = 0.0
    written: int = 0
    """Znodes created and written over."""
    removed: int = 0
    stopped: str = ""
    left: int = 0
    """Removed of an earlier probe, which was killed."""

    @property
    def fitted(self) -> tuple[float, float]:
        """Seconds of a request, and more for each operation."""
        return fit(self.points)

    @property
    def known(self) -> bool:
        """Whether requests of several sizes were timed."""
        return max(operations for operations, _ in self.points) > LEVELS[1]

    @property
    def slowest_s(self) -> float:
        """Of a request of one operation."""
        return max(seconds for operations, seconds in self.points if operations == 1)


@dataclass(slots=True)
class Pace:
    """Times requests, and waits after each as long as its share asks for."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def timed(self, work: Callable[[], object], least_s: float = 0.0) -> float:
        """Seconds that it took; the next may begin ``least_s`` after it began, or later."""
        began = self.clock()
        work()
        took = self.clock() - began
        self.sleep(max(took / SHARE, least_s) - took)
        return took


def measure(writes: Writes, pace: Pace, found: Probed) -> None:
    """Fill in the points, level by level.

    Args:
        writes: to the ensemble.
        pace: of the requests.
        found: is filled, so that it is there if a write fails.
    """
    end_s = pace.clock() + LIMIT_S

    def once(operations: int) -> float:
        least_s = 1 / FIRST_PER_S if operations == 1 else 0.0
        took = pace.timed(partial(writes.write, operations), least_s)
        found.written += operations
        found.points.append((operations, took))
        return took

    def made(count: int) -> None:
        pace.timed(partial(writes.make, count), 1 / FIRST_PER_S)

    made(1)
    found.written += 1
    first = statistics.median(once(1) for _ in range(SAMPLES))
    have = 1
    for operations in LEVELS[1:]:
        made(operations)
        found.written += operations - have
        have = operations
        singles: list[float] = []
        for _ in range(SAMPLES):
            if pace.clock() > end_s:
                found.stopped = f"after {LIMIT_S:g} s"
                return
            once(operations)
            singles.append(once(1))
            if len(singles) > 2 and statistics.median(singles) >= SLOWER * first:
                found.stopped = (
                    f"at requests of {operations} operations: one of 1 took "
                    f"{statistics.median(singles) * 1e3:.1f} ms, not {first * 1e3:.1f}"
                )
                return


class Folder:
    """The znodes of a probe in ZooKeeper.

    Args:
        client: connected.
        owned: whether the znodes are to be its login's alone.
    """

    def __init__(self, client: KazooClient, pace: Pace, *, owned: bool) -> None:
        self._client = client
        self._pace = pace
        self._acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE if owned else OPEN_ACL_UNSAFE
        self._have = 0

    def make(self, count: int) -> None:
        """See Writes."""
        fresh = range(self._have, count)
        self._commit([("create", (_name(number), DATA), {"acl": self._acl}) for number in fresh])
        self._have = count

    def write(self, operations: int) -> None:
        """See Writes."""
        self._commit([("set_data", (_name(number), DATA), {}) for number in range(operations)])

    def open(self, patience_s: float) -> int:
        """Begin; returns how many znodes of an earlier probe were removed.

        Args:
            patience_s: how long another probe may be seen that was killed a moment ago.

        Raises:
            ProbeError: the place is another's.
        """
        client, left = self._client, 0
        if client.exists("/") is None:
            raise ProbeError(f"the chroot {client.chroot} does not exist")
        if client.exists(FOLDER) is not None:
            self._check(patience_s)
            left = self._remove()
        create = partial(client.create, acl=self._acl)
        try:
            self._pace.timed(partial(create, FOLDER, MARK), 1 / FIRST_PER_S)
            self._pace.timed(partial(create, _RUNNING, b"", ephemeral=True), 1 / FIRST_PER_S)
        except NodeExistsError as error:
            raise ProbeError(_TWO) from error
        return left

    def _check(self, patience_s: float) -> None:
        data, _ = self._client.get(FOLDER)
        if data != MARK:
            raise ProbeError(f"{FOLDER} is there and was not made by kraft-bridge predict")
        end = self._pace.clock() + patience_s
        while self._client.exists(_RUNNING) is not None:
            if self._pace.clock() > end:
                raise ProbeError(_TWO)
            self._pace.sleep(0.2)

    def close(self) -> int:
        """Remove all; returns how many znodes."""
        return self._remove()

    def _remove(self) -> int:
        names = self._client.get_children(FOLDER)
        paths = [f"{FOLDER}/{one}" for one in sorted(names) if one != "running"]
        if strange := [one for one in paths if not one.startswith(f"{FOLDER}/z-")]:
            raise ProbeError(f"{strange[0]} is not of kraft-bridge predict: nothing is removed")
        for at in range(0, len(paths), LEVELS[2]):
            self._pace.timed(partial(self._delete, paths[at : at + LEVELS[2]]))
        with contextlib.suppress(NoNodeError):
            self._client.delete(_RUNNING)
        self._client.delete(FOLDER)
        return len(paths) + 1

    def _delete(self, paths: Sequence[str]) -> None:
        self._commit([("delete", (one,), {}) for one in paths])

    def _commit(self, operations: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
        transaction = self._client.transaction()
        for name, arguments, options in operations:
            getattr(transaction, name)(*arguments, **options)
        results = transaction.commit() if operations else []
        for one in results:
            if isinstance(one, Exception) and not isinstance(
                one, RolledBackError | RuntimeInconsistency
            ):
                raise one


def _name(number: int) -> str:
    return f"{FOLDER}/z-{number:03d}"


def probe(
    client: KazooClient, *, owned: bool, pace: Pace | None = None, patience_s: float = 15.0
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
        found.left = folder.open(patience_s)
        found.written += 2
        try:
            times = [pace.timed(partial(client.get, FOLDER)) for _ in range(SAMPLES)]
            found.read_s = statistics.median(times)
            measure(folder, pace, found)
        finally:
            found.removed = folder.close() + 1
    except NoAuthError as error:
        raise ProbeError(
            f"this login may not write {FOLDER}: give the properties of one that may with -c"
        ) from error
    except _NEVER as error:
        raise ProbeError(
            f"ZooKeeper does not answer any more ({type(error).__name__}): the next probe removes "
            f"what is left in {FOLDER}",
            lost=True,
        ) from error
    except KazooException as error:
        raise ProbeError(f"{FOLDER}: ZooKeeper refuses: {type(error).__name__}") from error
    return found
