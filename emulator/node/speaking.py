"""Lets the Raft machine and the controller speak as far as the authority of the node goes."""

from __future__ import annotations

from emulator.controller.machine import Controller
from emulator.migration.authority import SILENT, Authority
from emulator.raft.machine import Raft
from emulator.raft.replica import Serving
from emulator.seam import Effect, Log


class Speaking:
    """Holds what the two were told last; both begin without a limit."""

    def __init__(self, raft: Raft, controller: Controller) -> None:
        self._raft = raft
        self._controller = controller
        self._authority = Authority.GRANTED

    @property
    def silent_because(self) -> str:
        """Why brokers and callers are refused; empty if they are not."""
        return SILENT.get(self._authority, "")

    def follow(self, authority: Authority, now_ms: int) -> list[Effect]:
        """Refuse brokers and callers from now on, or serve them."""
        if authority is self._authority:
            return []
        was_silent, self._authority = self.silent_because, authority
        if self.silent_because:
            self._raft.serve(Serving.NOTHING, now_ms)
            self._controller.suspend(now_ms)
            level = "info" if authority is Authority.UNPROVEN else "warning"
            return [Log(level, "brokers and callers are refused", {"why": self.silent_because})]
        if not was_silent:
            return []
        self._raft.serve(Serving.ALL, now_ms)
        self._controller.resume(now_ms)
        return [Log("info", "brokers and callers are served", {})]
