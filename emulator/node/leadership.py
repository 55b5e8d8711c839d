"""Keeps the metadata and the controller in step with the log and with who leads.

A follower replays each batch when it is appended, committed or not; a batch that cannot be replayed
stops the node before it is written. A new leader activates its controller on top of all of it. One
that leads no more drops what is not committed, and replays it again from the log, as the next
leader may commit it.
"""

from __future__ import annotations

from emulator.controller.machine import Controller
from emulator.controller.supported import supported_features
from emulator.metadata.history import History
from emulator.node.recovery import replay_log, snapshot_image
from emulator.node.tracing import NodeCounters
from emulator.raft.machine import Raft
from emulator.seam import Effect, Log


class Leadership:
    """See the module's docstring.

    Args:
        raft, controller: of the node.
        history: the metadata that both use; holds the log up to its end.
        counters: get the number of epochs led.
    """

    def __init__(
        self,
        raft: Raft,
        controller: Controller,
        history: History,
        counters: NodeCounters,
    ) -> None:
        self.led_epoch: int | None = None
        """The epoch in which the controller was activated; None while it is not active."""
        self._raft = raft
        self._controller = controller
        self._history = history
        self._supported = supported_features(controller.config.release)
        self._counters = counters
        self._effects: list[Effect] = []
        self._rewritten = raft.rewritten

    def take_effects(self, now_ms: int) -> list[Effect]:
        """Follow, and return what changes since the last call of this have caused."""
        self.follow(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def follow(self, now_ms: int) -> None:
        """Take over what has changed; nothing if nothing has.

        Raises:
            RecoveryError: a record that does not fit, or finalises an unsupported level; the node
                must stop.
        """
        raft, effects = self._raft, self._effects
        leads = raft.is_leader
        if self.led_epoch is not None and not (leads and raft.leader_epoch == self.led_epoch):
            fields: dict[str, object] = {"epoch": self.led_epoch, "leader": raft.leader_id}
            effects.append(Log("info", "no longer the active controller", fields))
            self.led_epoch = None
            self._controller.resign(now_ms, raft.leader_id)
        if not leads:
            self._controller.leader_id = raft.leader_id
        self._replay()
        if leads and self.led_epoch is None:
            self.led_epoch = raft.leader_epoch
            self._counters.elections += 1
            note = {"migration": self._controller.activate(now_ms)}
            effects.append(Log("info", "active controller", dict(note)))

    def _replay(self) -> None:
        raft, history = self._raft, self._history
        if raft.rewritten != self._rewritten:
            self._rewritten = raft.rewritten
            latest = raft.latest_snapshot
            history.rewind()
            if latest is not None and latest.end_offset > history.tip.offset + 1:
                history.restart(snapshot_image(raft, self._supported))
        if history.tip.offset + 1 < raft.log_end_offset:
            replay_log(raft, history, self._supported)
