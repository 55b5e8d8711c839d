"""Makes this controller known to the active one: ControllerRegistration, once per incarnation.

The leader of a migration waits until every controller of the quorum is registered and ready (from
metadata.version 3.7-IV0 on). A leader writes its own registration when it is activated.

Source: ControllerRegistrationManager, Kafka 3.9; KIP-919.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.activation import registration
from emulator.controller.machine import Controller
from emulator.metadata.metadata_version import Feature
from emulator.raft.asking import Ask
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import NONE
from wire import messages as m
from wire.errors import ErrorCode

RETRY_MS: Final = 500
"""A new leader refuses with NOT_CONTROLLER in its first moments."""


class SelfRegistration:
    """Decides when to register; another layer sends.

    Args:
        raft: says who leads.
        controller: its metadata says who is registered.
    """

    def __init__(self, raft: Raft, controller: Controller) -> None:
        self.refusal = ""
        """What the active controller answered last, if it was an error."""
        self._raft = raft
        self._controller = controller
        self._asked = False
        self._due_ms: int | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When ``poll`` has something to ask; None while nothing is to be done."""
        if self._asked or not self._needed:
            return None
        return self._due_ms or 0

    def poll(self, now_ms: int) -> Ask | None:
        """The request, if it is due."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        own = registration(self._controller.stable, self._controller.config)
        assert own is not None, "it is needed"
        kind = m.ControllerRegistrationRequest
        request = kind(
            controller_id=own.controller_id,
            incarnation_id=own.incarnation_id,
            zk_migration_ready=own.zk_migration_ready,
            listeners=[
                kind.Listener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in own.end_points
            ],
            features=[
                kind.Feature(
                    name=each.name,
                    min_supported_version=each.min_supported_version,
                    max_supported_version=each.max_supported_version,
                )
                for each in own.features
            ],
        )
        self._asked = True
        return Ask(self._raft.leader_id, self._raft.leader_epoch, request)

    def answered(self, answer: m.ControllerRegistrationResponse | None, now_ms: int) -> None:
        """Take the answer; None: there is none. The log says whether it was accepted."""
        self._asked = False
        self._due_ms = now_ms + RETRY_MS
        if answer is not None and answer.error_code != ErrorCode.NONE:
            self.refusal = answer.error_message or f"error {answer.error_code}"
        elif answer is not None:
            self.refusal = ""

    @property
    def _needed(self) -> bool:
        raft, controller = self._raft, self._controller
        config, image = controller.config, controller.stable
        # One that has resigned still names itself.
        if raft.leader_id in {NONE, config.node_id} or raft.high_watermark < 0:
            return False
        if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
            return False
        known = image.controllers.get(config.node_id)
        return known is None or known.incarnation_id != config.incarnation_id
