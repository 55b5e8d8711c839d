"""Work done by barrier tasks of a Spark cluster, and its results or its first failure."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, Generic, TypeVar

import uvloop
from py4j.protocol import Py4JError
from pyspark import BarrierTaskContext, SparkContext
from pyspark.errors import PySparkException

from bench.analysis.failure import reason
from bench.analysis.reach import SparkUnavailableError
from bench.analysis.session import end, session
from bench.tasks.desk import TaskDesk, TaskFailure
from bench.tasks.side import TaskSide, monotonic_of
from emulator.io.together import Share, Together
from emulator.servers.java import JavaNotFoundError

T = TypeVar("T")

BEGIN_LEAD_NS: Final = 2_500_000_000
"""How long after the last task came to the barrier all begin: each has left it by then. Spark looks
once a second whether all are there."""
SLOTS_S: Final = 60.0
"""How long executors of a cluster may take to come."""
SETTLE_S: Final = 15.0
"""How long tasks may take to end in order after Spark has given them up."""
_SETTINGS: Final = {
    # A load is not repeated because a part of it failed.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
}


class TasksFailedError(Exception):
    """The work ended before its time; the text is one sentence. ``kind`` as in TaskFailure."""

    def __init__(self, why: str, kind: str = "") -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """What each task does; both functions are called in the task's process.

    ``prepare`` runs before the barrier, and a failure there ends all before anything has begun.
    ``run`` gives the task's result. A failure is an exception; its text is shown.
    """

    prepare: Callable[[Share], Coroutine[Any, Any, None]]
    run: Callable[[Together], Coroutine[Any, Any, T]]


@dataclass(frozen=True, slots=True)
class _Order(Generic[T]):
    """What is sent to every task."""

    work: Work[T]
    address: tuple[str, int]
    token: str
    version: str


def run_together(
    master: str, tasks: int, work: Work[T], print_line: Callable[[str], None]
) -> list[T]:
    """Do work in ``tasks`` barrier tasks; returns their results by number.

    The first SIGINT or SIGTERM asks the tasks to end in order, the second to end at once. Only the
    main thread may use this.

    Args:
        master: ``local[N]``, ``spark://host:port``, …; as many cores must be free as there are
            tasks.
        tasks: how many.
        work: must be picklable; the workers must be able to import its modules.
        print_line: takes lines about the progress.

    Raises:
        TasksFailedError: a task failed, or Spark did.
        JavaNotFoundError: Spark's driver needs Java and there is none.
    """
    try:
        spark = session(master, app="kraft-bridge", settings=_SETTINGS)
    except JavaNotFoundError:  # a RuntimeError too, but its text says all
        raise
    except SparkUnavailableError as error:
        raise TasksFailedError(str(error)) from error
    except (Py4JError, PySparkException, RuntimeError, ValueError) as error:
        raise TasksFailedError(f"Spark does not start on {master}: {reason(error)}") from error
    try:
        context = spark.sparkContext
        host = str(context.getConf().get("spark.driver.host", "127.0.0.1"))
        with _asked_to_stop() as asked, TaskDesk(host, tasks, print_line) as desk:
            _wait_for_slots(context, master, tasks, asked)
            order = _Order(work, desk.address, desk.token, _version())
            return _supervised(_Job(context, tasks, order), desk, asked, print_line)
    finally:
        # Java may have been ended by the same signal.
        with contextlib.suppress(Py4JError, OSError):
            end(spark, SETTLE_S)


class _Job(Generic[T]):
    """The job of Spark, in a thread; py4j's own handler of signals would break into its talk."""

    def __init__(self, context: SparkContext, tasks: int, order: _Order[T]) -> None:
        self.results: list[tuple[T | None, TaskFailure | None]] = []
        self.error: Exception | None = None
        self.cancel = context.cancelAllJobs
        self._rdd = context.parallelize(range(tasks), tasks).barrier()
        self._order = order
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.results = self._rdd.mapPartitions(functools.partial(_task, self._order)).collect()
        except (Py4JError, PySparkException, OSError, EOFError) as error:
            self.error = error

    def runs(self, wait_s: float) -> bool:
        """Whether it still runs after a while."""
        self._thread.join(wait_s)
        return self._thread.is_alive()


def _supervised(
    job: _Job[T], desk: TaskDesk, asked: list[int], print_line: Callable[[str], None]
) -> list[T]:
    handled = 0
    while job.runs(0.1):
        if len(asked) == handled:
            continue
        handled += 1
        if handled == 1:
            print_line("the tasks are asked to end (again: at once)")
            desk.stop("orderly")
        elif handled == 2:
            desk.stop("now")
        else:
            job.cancel()
    if job.error is not None:
        desk.settle(SETTLE_S)
    failure = desk.failure or next((each for _, each in job.results if each is not None), None)
    if failure is not None:
        raise TasksFailedError(str(failure), failure.kind)
    if job.error is not None:
        raise TasksFailedError(f"Spark ended the tasks: {reason(job.error)}")
    return [result for result, _ in job.results if result is not None]


@contextlib.contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """The signals to stop that came so far."""
    asked: list[int] = []

    def handle(number: int, _frame: object) -> None:
        asked.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for_slots(context: SparkContext, master: str, tasks: int, asked: list[int]) -> None:
    """Wait until the executors have a core for each task: Spark begins a barrier of all or none."""
    java = context._jsc.sc()  # noqa: SLF001 - nothing public says how many tasks can run at once
    profile = java.resourceProfileManager().defaultResourceProfile()
    end_s = time.monotonic() + (0 if master.startswith("local") else SLOTS_S)
    while (free := java.maxNumConcurrentTasks(profile)) < tasks:
        if asked:
            raise TasksFailedError("interrupted")
        if time.monotonic() >= end_s:
            raise TasksFailedError(f"{tasks} tasks need a core each, and {master} gives {free}")
        time.sleep(0.2)


def _version() -> str:
    return metadata.version("kraft-bridge")


# -------------------------------------------------------------------- in the task's process
def _task(
    order: _Order[T], _numbers: Iterable[int]
) -> Iterator[tuple[T | None, TaskFailure | None]]:
    """What Spark calls in each task. It raises nothing: Spark would retry, or hide the error.

    If Spark retries all the same, because it lost a task, the driver knows of the loss: it asks
    the tasks that connect then to end at once.
    """
    context = BarrierTaskContext.get()
    share = Share(context.partitionId(), len(context.getTaskInfos()))
    problem = _prepared(order, share)
    mine = json.dumps({"wall_ns": time.time_ns(), "failed": problem is not None})
    gathered = [json.loads(each) for each in context.allGather(mine)]
    if any(each["failed"] for each in gathered):
        yield None, problem
        return
    begin_ns = monotonic_of(max(each["wall_ns"] for each in gathered) + BEGIN_LEAD_NS)
    part = _take_part(order, share, begin_ns)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(part)
    yield result, None


def _prepared(order: _Order[T], share: Share) -> TaskFailure | None:
    kind = why = ""
    if order.version != _version():
        kind, why = "version", f"its kraft-bridge is {_version()}, the driver's {order.version}"
    else:
        try:
            asyncio.run(order.work.prepare(share))
        except Exception as error:  # noqa: BLE001 - told to the user
            kind, why = type(error).__name__, _error_text(error)
    return TaskFailure(share.index, socket.gethostname(), kind, why) if kind else None


async def _take_part(order: _Order[T], share: Share, begin_ns: int) -> T | None:
    side, reading = await TaskSide.open(order.address, order.token, share, begin_ns)
    last: dict[str, object] = {"done": True}
    try:
        return await order.work.run(side)
    except Exception as error:  # noqa: BLE001 - told to the user
        last = {"failed": _error_text(error), "kind": type(error).__name__}
        return None
    finally:
        reading.cancel()
        await side.close(**last)


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
