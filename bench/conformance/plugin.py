"""``pytest --conformance HOST:PORT``: every case is a test of its own.

pytest finds it by its entry point once kraft-bridge is installed. It is loaded in every run of
pytest in that environment, so it imports the rest only when it is asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bench.conformance.case import Case, Where
    from bench.conformance.runner import Run

_BROKER = "--conformance"
_CONTROLLER = "--conformance-controller"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("conformance", "cases of kraft-bridge conformance")
    group.addoption(_BROKER, metavar="HOST:PORT", help="judge the broker that listens there")
    group.addoption(_CONTROLLER, metavar="HOST:PORT", help="judge the active controller there")
    group.addoption("--conformance-seed", type=int, default=0, help="of what is drawn")
    group.addoption(
        "--conformance-disruptive",
        action="store_true",
        help="also elect, register brokers, send Envelopes: as --allow-disruptive --yes",
    )


_RUN: pytest.StashKey[Run] = pytest.StashKey()


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the cases to what was collected, if a server is named."""
    config = session.config
    if config.getoption(_BROKER) or config.getoption(_CONTROLLER):
        run = _connected(config)
        config.stash[_RUN] = run
        collector = _Cases.from_parent(session, name="conformance", nodeid="conformance")
        items += list(collector.collect())


def _connected(config: pytest.Config) -> Run:
    from bench.conformance.case import Where  # noqa: PLC0415 - when it is asked for
    from bench.conformance.judge import known  # noqa: PLC0415 - when it is asked for
    from bench.conformance.made import Made  # noqa: PLC0415 - when it is asked for
    from bench.conformance.runner import Address, Run, UnreachableError  # noqa: PLC0415 - when it is asked for
    from emulator.config.listeners import host_port  # noqa: PLC0415 - when it is asked for

    addresses = {}
    for where, option in ((Where.BROKER, _BROKER), (Where.CONTROLLER, _CONTROLLER)):
        if text := config.getoption(option):
            try:
                place = host_port(text)
            except ValueError as error:
                raise pytest.UsageError(f"{option} {text}: {error}") from error
            addresses[where] = Address(place.host, place.port)
    try:
        facts = known(addresses)
    except UnreachableError as error:
        raise pytest.UsageError(str(error)) from error
    made = Made(f"conformance-{secrets.token_hex(4)}")
    seed = config.getoption("--conformance-seed")
    return Run(addresses, facts, made, seed, config.getoption("--conformance-disruptive"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what was made."""
    run = session.config.stash.get(_RUN, None)
    if run is not None and run.made.sent:
        left = run.remove()
        assert not left, f"left on the server: {'; '.join(left)}"


class _Cases(pytest.Collector):
    """All cases, where they belong."""

    def collect(self) -> Iterator[pytest.Item]:
        from bench.conformance.choosing import chosen  # noqa: PLC0415 - when it is asked for

        run = self.config.stash[_RUN]
        for one in chosen([]):
            for where in run.places(one):
                yield _Test.from_parent(self, name=f"{one.id}@{where.value}", case=one, where=where)


class _Test(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, where: Where, **more: Any) -> None:
        super().__init__(**more)
        self._case = case
        self._where = where

    def runtest(self) -> None:
        """Run it.

        Raises:
            AssertionError: the server does not do what the case demands.
        """
        found = self.config.stash[_RUN].one(self._case, self._where)
        if found.outcome == "failed":
            said = f"{found.why}: expected {found.expected}, got {found.got}"
            raise AssertionError(f"{self._case.title}\n{said}\n{self._case.sources}")
        if found.outcome != "passed":
            pytest.skip(f"{found.outcome}: {found.why}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """What the case says; a traceback of the judge explains nothing of the server."""
        del style
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """How pytest names it."""
        return "conformance", None, f"{self.name}: {self._case.title}"
