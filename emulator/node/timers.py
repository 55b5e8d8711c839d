"""The timers of a node: when the next one is due, and what is done then.

Deadlines are asked for after each step, as the environment sets its timer by them. Until that time
nothing is due but for what events have caused since; so a step before it looks at no timer. What
its events made due is found when the deadlines are asked for after it, and done in the next step,
which is then due at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.controller.machine import Controller
from emulator.migration.side import MigrationSide, NoMigration
from emulator.net.accepted import Connections
from emulator.node.office import NodeOffice
from emulator.node.peers import NoPeers, Peers
from emulator.node.stopping import OrderlyStop
from emulator.raft.machine import Raft
from emulator.seam import Close, Effect, earliest

_NEVER_MS: Final = 1 << 63


class Timers:
    """See the module's docstring.

    Args:
        raft, controller, connections, migration, peers, office, stop: of the node.
        left: told the connections that are closed here.
    """

    def __init__(  # noqa: PLR0917  # one argument per machine
        self,
        raft: Raft,
        controller: Controller,
        connections: Connections,
        migration: MigrationSide | NoMigration,
        peers: Peers | NoPeers,
        office: NodeOffice,
        stop: OrderlyStop,
        left: Callable[[int], None],
    ) -> None:
        self._raft = raft
        self._controller = controller
        self._connections = connections
        self._migration = migration
        self._peers = peers
        self._office = office
        self._machines = (raft, controller, connections, migration, peers, stop, office)
        self._left = left
        self._quiet_until_ms = 0
        """Nothing is due before, but for what events have caused since; 0: that is not known."""

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do; None: never, if nothing happens."""
        found = earliest([machine.deadline_ms for machine in self._machines])
        self._quiet_until_ms = _NEVER_MS if found is None else found
        return found

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due, unless nothing can be that was not when ``deadline_ms`` was asked for."""
        quiet, self._quiet_until_ms = now_ms < self._quiet_until_ms, 0
        if quiet:
            return []
        effects: list[Effect] = []
        if _due(self._raft.deadline_ms, now_ms):
            effects += self._raft.tick(now_ms)
            self._office.follow(now_ms)
        if _due(self._peers.deadline_ms, now_ms):
            self._peers.tick(now_ms)
        if _due(self._controller.deadline_ms, now_ms):
            self._controller.tick(now_ms)
        effects += self._migration.tick(now_ms)
        if _due(self._connections.deadline_ms, now_ms):
            for conn in self._connections.tick(now_ms):
                self._left(conn)
                effects.append(Close(conn))
        return effects


def _due(deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= now_ms
