"""The mode of a broker: where it learns the cluster from, and which node is its controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from emulator.broker.cluster import KnownCluster
from emulator.broker.controller_channel import ControllerNode
from emulator.broker.lifecycle import BrokerPart, LifeState
from emulator.net.control import ControlRequest, ControlResponse
from emulator.net.scram import UsedCredential


class BrokerSide(Protocol):
    """KRaft mode, or ZooKeeper mode with or without migration."""

    @property
    def mode(self) -> Literal["kraft", "zk"]:
        """Which APIs the listeners offer."""

    @property
    def cluster(self) -> KnownCluster:
        """What APIs answer from."""

    @property
    def knows_users(self) -> bool:
        """Whether users and tokens of :attr:`cluster` are those that are committed."""

    def take_taken_away(self) -> list[UsedCredential]:
        """Credentials that were deleted since the last call, as far as each change is known."""

    @property
    def parts(self) -> Sequence[BrokerPart]:
        """Its parts, in the order in which they are called."""

    @property
    def forwards(self) -> bool:
        """Whether requests of clients go to the controller in Envelopes now."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""

    @property
    def running(self) -> bool:
        """Whether clients may be served: registered, and unfenced once."""

    @property
    def state(self) -> LifeState:
        """The state that Kafka's broker would report."""

    @property
    def over(self) -> tuple[int, str] | None:
        """Exit code and reason, once the broker has to end."""

    def controller(self) -> ControllerNode | None:
        """Whom Envelopes and AlterPartition go to; None while unknown."""

    def exchange(self, now_ms: int) -> None:
        """Pass news between the parts; called after each of them was called."""

    def take_control_request(self, request: ControlRequest, now_ms: int, /) -> ControlResponse:
        """Take a request of a controller to a ZooKeeper-mode broker."""

    def shut_down(self, now_ms: int) -> None:
        """Begin an orderly stop; :attr:`over` says when it is done."""
