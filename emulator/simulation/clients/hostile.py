"""Clients with names and values that are long, odd, or wrong.

Whatever the answer is, one must come, the controller must go on, and what is accepted must come to
both stores as everything else does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.net.greeting import declared
from emulator.simulation.models.broker import PRINCIPAL, SimulatedBroker
from wire import messages as m
from wire.frame import RequestHeader, encode_request

LENGTHS: Final = (0, 1, 249, 250, 1_000, 5_000, 16_000, 32_000, 32_760, 32_767)
"""Around the limits of a topic's name and of a string on the wire."""
ALPHABETS: Final = ("a", "1", "\x01", "\x00", "\u00e9", "\u4e2d", "/", ".", "%", '"', " ", "\\")
RESOURCES: Final = (2, 4, 8)


class Hostile:
    """A client whose requests are wrong or malicious.

    Args:
        add_line: takes a line of the story.
    """

    def __init__(self, add_line: Callable[[str], None]) -> None:
        self.rng = Random(0)
        self._add_line = add_line
        self._waiting = 0
        self.answered = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting > 0

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask once: through a broker, or the controller, plainly or in an Envelope."""
        broker = self.rng.choice(brokers)
        message, version = self.rng.choice(_KINDS)(self)
        self._waiting += 1
        what = type(message).__name__

        def answered(answer: object | None) -> None:
            self._waiting -= 1
            self.answered += answer is not None
            self._add_line(f"{what} of a hostile client: {type(answer).__name__}")

        way = self.rng.random()
        if way < 0.5:
            broker.ask_as_client(message, version, lambda asked: answered(asked.answer))
            return
        if way < 0.8:
            header = RequestHeader(
                api_key=declared(type(message))[1],
                api_version=version,
                correlation_id=1,
                client_id=self.text(250),
            )
            message = m.EnvelopeRequest(
                request_data=encode_request(header, message),
                request_principal=PRINCIPAL,
                client_host_address=b"\x7f\x00\x00\x01",
            )
            version = 0
        broker.ask(message, version, answered)

    def text(self, most: int = 32_767) -> str:
        """A string with a length near a limit."""
        length = min(most, self.rng.choice(LENGTHS))
        letter = self.rng.choice(ALPHABETS)
        found = letter * (length // len(letter.encode()))
        return self.rng.choice((found, found[:-1] + "z" if found else "..", "x" + found[1:]))

    # ---------------------------------------------------------------- what is asked
    def _create(self) -> tuple[object, int]:
        kinds = m.CreateTopicsRequest
        config = kinds.CreatableTopicConfig(name="retention.ms", value=self.text())
        topic = kinds.CreatableTopic(
            name=self.text(),
            num_partitions=self.rng.choice((-1, 0, 1, 3)),
            replication_factor=self.rng.choice((-1, 0, 1, 9)),
            configs=[config] if self.rng.random() < 0.3 else [],
        )
        return kinds(topics=[topic], timeout_ms=4_000), 7

    def _configs(self) -> tuple[object, int]:
        kinds = m.IncrementalAlterConfigsRequest
        many = self.rng.choice((1, 1, 40))
        configs = [
            kinds.AlterableConfig(
                name=f"x{index}{self.text(32_760)}" if many > 1 else "log.cleaner.threads",
                config_operation=self.rng.choice((0, 0, 1, 2)),
                value=self.text(),
            )
            for index in range(many)
        ]
        resource = kinds.AlterConfigsResource(
            resource_type=self.rng.choice(RESOURCES),
            resource_name=self.rng.choice(("", "0", "1" * 5_000, self.text())),
            configs=configs,
        )
        return kinds(resources=[resource]), 1

    def _describe(self) -> tuple[object, int]:
        kinds = m.DescribeConfigsRequest
        resource = kinds.DescribeConfigsResource(
            resource_type=self.rng.choice(RESOURCES), resource_name=self.text()
        )
        return kinds(resources=[resource]), 4

    def _quota(self) -> tuple[object, int]:
        kinds = m.AlterClientQuotasRequest
        entry = kinds.EntryData(
            entity=[
                kinds.EntityData(
                    entity_type=self.rng.choice(("user", "client-id", "ip", "odd")),
                    entity_name=self.text(),
                )
            ],
            ops=[kinds.OpData(key="producer_byte_rate", value=1.0, remove=False)],
        )
        return kinds(entries=[entry], validate_only=False), 1

    def _acl(self) -> tuple[object, int]:
        kinds = m.CreateAclsRequest
        creation = kinds.AclCreation(
            resource_type=self.rng.choice((2, 3, 5)),
            resource_name=self.text(),
            resource_pattern_type=self.rng.choice((3, 4)),
            principal=self.rng.choice(("User:", "")) + self.text(32_000),
            host="*",
            operation=3,
            permission_type=3,
        )
        return kinds(creations=[creation]), 3

    def _elect(self) -> tuple[object, int]:
        group = m.ElectLeadersRequest.TopicPartitions
        asked = [group(topic=self.text(), partitions=(0,))]
        return m.ElectLeadersRequest(election_type=0, topic_partitions=asked, timeout_ms=4_000), 2

    def _move(self) -> tuple[object, int]:
        kinds = m.AlterPartitionReassignmentsRequest
        part = kinds.ReassignablePartition(partition_index=0, replicas=(0, 0, 7))
        topic = kinds.ReassignableTopic(name=self.text(), partitions=[part])
        return kinds(topics=[topic], timeout_ms=4_000), 0


_KINDS: Final = (
    Hostile._create,  # noqa: SLF001  # a table of the class's own methods
    Hostile._configs,  # noqa: SLF001 - as above
    Hostile._describe,  # noqa: SLF001 - as above
    Hostile._quota,  # noqa: SLF001 - as above
    Hostile._acl,  # noqa: SLF001 - as above
    Hostile._elect,  # noqa: SLF001 - as above
    Hostile._move,  # noqa: SLF001 - as above
)
