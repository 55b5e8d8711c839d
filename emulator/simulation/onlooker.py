"""What observes a simulated cluster: its checkers, and operators that act on what they see."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.net.control import ControlRequest
from emulator.seam import Effect
from emulator.simulation.models.broker import BrokerAsked, SimulatedBroker
from emulator.simulation.models.process import Process


class Onlooker:
    """Sees everything and changes nothing; may raise Violated."""

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """A controller process has taken a step, with these effects to come."""

    def served(self, changed: frozenset[str], client: str) -> None:
        """ZooKeeper has served a request of ``client``, which changed these znodes."""

    def read(self, paths: frozenset[str], client: str) -> None:
        """ZooKeeper has served any request of ``client``, which read these znodes, or none."""

    def control_request_received(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """A broker has received a control request."""

    def granted(self, broker: SimulatedBroker) -> None:
        """A change of an ISR was granted to the leader that had asked for it."""

    def passed_on(self, asked: BrokerAsked) -> None:
        """A client has the answer of a broker, or none."""

    def set_back(self) -> None:
        """ZooKeeper's ensemble has begun again from a backup of an earlier state."""
