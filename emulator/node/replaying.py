"""Keeps the metadata of a node at the end of its log.

What a follower gets with one Fetch is replayed in the step that takes it: a record that cannot be
replayed then stops the node before it is written. A snapshot that replaces the log is replayed in
slices, one in each step, and so is what the log has got behind it meanwhile: decoding 100,000
partitions takes seconds, in which a voter has to fetch on and to answer votes.
"""

from __future__ import annotations

from emulator.controller.machine import Controller
from emulator.metadata.history import History
from emulator.node.recovery import Supported, replay_log, snapshot_image, unsupported
from emulator.raft.layout import RecoveryError
from emulator.raft.machine import Raft
from emulator.seam import Slices, whole


class LogReplay:
    """See the module's docstring.

    Args:
        raft: the log.
        controller: takes over a snapshot.
        history: replayed up to the end of the log.
        supported: lowest and highest level by feature.
    """

    def __init__(
        self, raft: Raft, controller: Controller, history: History, supported: Supported
    ) -> None:
        self._raft = raft
        self._controller = controller
        self._history = history
        self._supported = supported
        self._rewritten = raft.rewritten
        self._slices: Slices[None] | None = None
        self._levels = history.tip.features

    @property
    def behind(self) -> bool:
        """Whether slices are left: the metadata ends below the log."""
        return self._slices is not None

    def follow(self) -> None:
        """Take what is new in the log at once, or begin with a snapshot that has replaced it.

        Raises:
            RecoveryError: a record that does not fit, or finalises an unsupported level; the node
                must stop.
        """
        raft, history = self._raft, self._history
        if raft.rewritten != self._rewritten:
            self._rewritten = raft.rewritten
            history.rewind()
            latest = raft.latest_snapshot
            replaced = latest is not None and latest.end_offset > history.tip.offset + 1
            self._slices = self._load(replaced=replaced) if replaced or self.behind else None
        if self._slices is None and history.tip.offset + 1 < raft.log_end_offset:
            whole(replay_log(raft, history, self._supported))

    def look_at_levels(self) -> None:
        """A leader does not read what it appends: see that it supports what it finalises itself.

        Raises:
            RecoveryError: it does not; it must not lead on.
        """
        tip = self._history.tip
        if tip.features is self._levels:
            return
        self._levels = tip.features
        for name, level in self._levels.items():
            if why := unsupported(name, level, self._supported):
                raise RecoveryError("__cluster_metadata-0", tip.offset, why)

    def go_on(self) -> None:
        """Do the next slice, if there is one.

        Raises:
            RecoveryError: as :meth:`follow`.
        """
        if self._slices is not None and next(self._slices, self) is self:
            self._slices = None

    def _load(self, *, replaced: bool) -> Slices[None]:
        if replaced:
            image = yield from snapshot_image(self._raft, self._supported)
            self._controller.begin_anew(image)
        while self._history.tip.offset + 1 < self._raft.log_end_offset:
            yield
            yield from replay_log(self._raft, self._history, self._supported)
