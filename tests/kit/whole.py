"""What tests share is whole for the next one, whatever the last one did: a pytest plugin.

* A test that fails, or that its time limit ends, may leave a server paused, a session of Spark in
  the middle of an answer, a fixture that was never set up. So what it shared is ended with it, and
  the next test that asks for it gets a new one. A set-up that fails twice in a row fails by
  itself: it is left as it is, and what needs it fails with the same reason, at once.
* What a test has a signal do ends with it, also if it passed: a server that a later one starts
  would otherwise ignore the SIGTERM that is to end it.
* What it left to be collected is collected with it: the sockets of a failed test would otherwise
  be reported in the middle of another one.
* A test that hangs ends. What the time limit of pytest-timeout raises, an event loop takes for a
  failure of one of its callbacks, and Hypothesis for a wrong example; both go on. So here it is an
  interrupt, which strikes again if it was caught. The teardown has a limit of its own, which
  pytest-timeout takes away from a test that has failed.
"""

from __future__ import annotations

import gc
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest
import pytest_timeout
from _pytest.outcomes import Failed


class TimeIsOverError(KeyboardInterrupt):
    """A time limit, in a test; no failure, so that nothing takes it for one of its own."""


class TimeIsOverInFixtureError(Failed, TimeIsOverError):
    """The same in a fixture; for pytest a failure, so that it knows what has become of it."""


STRIKES_AGAIN_S: Final = 120
"""How long what a limit has interrupted may take to end its servers, before it strikes again."""

SET_UPS: Final = 2
"""So many set-ups of one fixture may fail in a row; then it is left as it is."""

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FOREIGN: Final = frozenset({"_pytest", "pytest_asyncio", "xdist", "_hypothesis_pytestplugin"})
_FAILED: Final = pytest.StashKey[bool]()
_LIMIT: Final = pytest.StashKey[pytest_timeout.Settings]()
_WHERE: Final = pytest.StashKey[type[TimeIsOverError] | None]()
"""What a limit raises now; nothing between the phases, where pytest itself is at work."""
_STRUCK: Final = pytest.StashKey[str]()
_UNMADE: Final = pytest.StashKey[list[Any]]()
_set_ups: Final[Counter[Any]] = Counter()
"""Set-ups of each fixture that failed in a row."""


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(
    item: pytest.Item, settings: pytest_timeout.Settings
) -> Generator[None, object, object]:
    """Let the limit be an interrupt, and strike until `pytest_timeout` says that it is over."""
    result = yield
    item.stash[_LIMIT] = settings
    if settings.method == "signal":
        strike = signal.getsignal(signal.SIGALRM)
        assert callable(strike)

        def interrupt(number: int, frame: FrameType | None) -> None:
            kind = item.stash.get(_WHERE, None)
            if kind is None:
                return
            try:
                strike(number, frame)
            except Failed as error:
                item.stash[_STRUCK] = str(error.msg)
                raise kind(str(error.msg)) from None

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, STRIKES_AGAIN_S)
    return result


@contextmanager
def _limited(item: pytest.Item, kind: type[TimeIsOverError]) -> Iterator[None]:
    """Where a limit raises ``kind``; who catches it does not pass.

    pytest sees a failure: an interrupt would end the run.
    """
    before = item.stash.get(_WHERE, None)
    item.stash[_WHERE] = kind
    if _STRUCK in item.stash:
        del item.stash[_STRUCK]
    try:
        yield
    except TimeIsOverError as error:
        raise Failed(str(error)).with_traceback(error.__traceback__) from None
    finally:
        item.stash[_WHERE] = before
    if _STRUCK in item.stash:
        raise Failed(f"{item.stash[_STRUCK]} It was caught.")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Let a limit end it."""
    with _limited(item, TimeIsOverInFixtureError):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let a limit end it."""
    with _limited(item, TimeIsOverError):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """Count what fails; pytest keeps it, and fails all that ask for it again."""
    item: pytest.Item = request._pyfuncitem
    where = item.stash[_WHERE]
    item.stash[_WHERE] = TimeIsOverInFixtureError  # also where a test asks for it in its midst
    try:
        result = yield
    except pytest.skip.Exception:
        raise
    except (Exception, Failed):
        _set_ups[fixturedef] += 1
        item.stash.setdefault(_UNMADE, []).append(fixturedef)
        raise
    finally:
        item.stash[_WHERE] = where
    _set_ups.pop(fixturedef, None)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test has failed, unless it was never begun as a fixture is given up."""
    report = yield
    if report.failed and not _given_up(call.excinfo):
        item.stash[_FAILED] = True
    return report


def _given_up(failure: pytest.ExceptionInfo[BaseException] | None) -> bool:
    reasons = [fixture.cached_result for fixture, times in _set_ups.items() if times >= SET_UPS]
    kept = [reason[2][0] for reason in reasons if reason is not None and reason[2] is not None]
    error = failure and failure.value
    return any(error is one or (error and error.__context__ is one) for one in kept)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End what a failed test shared. What cannot be ended is an error of that test too."""
    limit = item.stash.get(_LIMIT, None)
    if limit is not None and limit.func_only:
        limit = pytest_timeout.get_env_settings(item.config)
    if limit is not None and limit.timeout:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=limit)
    errors: list[BaseException] = []
    result: object = None
    try:
        with _limited(item, TimeIsOverInFixtureError):
            result = yield
    except (Exception, Failed) as error:  # noqa: BLE001 - raised below
        errors.append(error)
    if errors or _FAILED in item.stash:
        errors += _end_shared(item)
    item.config.hook.pytest_timeout_cancel_timer(item=item)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"the end of {item.name} and of what it shared", errors)
    return result


def _end_shared(item: pytest.Item) -> Iterator[BaseException]:
    request: Any = getattr(item, "_request", None)
    made = getattr(request, "_fixture_defs", {}).values()
    for fixture in (*made, *item.stash.get(_UNMADE, ())):
        foreign = fixture.func.__module__.partition(".")[0] in _FOREIGN
        if fixture.scope == "function" or foreign:
            continue
        try:
            with _limited(item, TimeIsOverInFixtureError):
                fixture.finish(request)
        except (Exception, Failed) as error:  # noqa: BLE001 - raised by the caller
            yield error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Undo what a test has signals do; collect what a failed one left, as nothing holds it now."""
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    result = yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if _FAILED in item.stash:
        for name in ("last_exc", "last_type", "last_value", "last_traceback"):
            vars(sys).pop(name, None)
        with _unheard():
            gc.collect()
    return result


@contextmanager
def _unheard() -> Iterator[None]:
    """It has failed: what else it left open is no news."""
    heard = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = heard
