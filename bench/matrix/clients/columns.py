"""One cluster in KRaft mode for each column: whose brokers, and whose controller."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge, BridgeBroker
from emulator.servers.cluster import known_to
from emulator.servers.kafka import TOKEN_SECRET, KafkaBroker, KraftController
from emulator.servers.process import ProcessError
from emulator.servers.waiting import wait_for
from wire import messages as m

RELEASE: Final = "3.9.2"
COUNT: Final = 3
OURS, KAFKA = "ours", "Kafka"
COLUMNS: Final = ((KAFKA, KAFKA), (KAFKA, OURS), (OURS, KAFKA), (OURS, OURS))
"""(brokers, controller) of each column; the first one is what the others are compared with."""
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
_MARKER: Final = "marker"
_INTERNAL: Final = {"__consumer_offsets": 4, "__transaction_state": 4}
"""Topics of the coordinators, with their partitions: made first, so that no chance places them."""
_SECURED: Final = {
    # No super user: brokers and clients, all without login, may everything until there are ACLs,
    # and then by `_EVERYBODY`. So an ACL that denies refuses a client.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": TOKEN_SECRET,
}
_EVERYBODY: Final = ((2, "*"), (3, "*"), (4, "kafka-cluster"), (5, "*"))
"""What User:* may do everything with: (type, name) of topics, groups, cluster, transactions."""


@dataclass
class Column:
    """Started as a context manager: a controller and three brokers that know each other.

    Args:
        brokers: `OURS` or `KAFKA`.
        controller: the same.
        folder: of everything.
    """

    brokers: str
    controller: str
    folder: Path
    servers: Sequence[KafkaBroker] = ()
    _turns: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_000))
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def name(self) -> str:
        """As the table heads it: brokers, then controller."""
        return f"{self.brokers} + {self.controller}"

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the broker that clients are given."""
        return self.servers[0].bootstrap

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        port = self._controller()
        kind = BridgeBroker if self.brokers == OURS else KafkaBroker
        self.servers = [
            kind(
                RELEASE,
                number,
                self.folder / "brokers",
                None,
                controller_port=port,
                properties=_SECURED,
                broker_count=COUNT,
            )
            for number in range(COUNT)
        ]
        for broker in self.servers:
            self._stack.callback(broker.kill)
            broker.identify(CLUSTER_ID).start()
        for broker in self.servers:
            broker.wait_started()
        for broker in self.servers:
            wait_for(
                f"all brokers on broker {broker.id}",
                functools.partial(_complete, broker.client_port),
            )
        asyncio.run(self._prepare())
        self.settle()

    def _controller(self) -> int:
        folder = self.folder / "controller"
        if self.controller == OURS:
            ours = Bridge(folder, None, release=RELEASE, properties=_SECURED)
            self._stack.callback(ours.kill)
            ours.format(CLUSTER_ID).start().wait_started()
            return ours.port
        kafkas = KraftController(RELEASE, folder, None, CLUSTER_ID, properties=_SECURED)
        self._stack.callback(kafkas.kill)
        kafkas.start().wait_started()
        return kafkas.port

    async def _prepare(self) -> None:
        kinds = m.CreateTopicsRequest
        topics = [
            kinds.CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    kinds.CreatableReplicaAssignment(
                        partition_index=index,
                        broker_ids=[(index + step) % COUNT for step in range(COUNT)],
                    )
                    for index in range(count)
                ],
            )
            for name, count in {_MARKER: 1, **_INTERNAL}.items()
        ]
        await api.create_topics(self.bootstrap, topics)
        one = m.CreateAclsRequest.AclCreation
        acls = [
            one(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=3,
                principal="User:*",
                host="*",
                operation=2,
                permission_type=3,
            )
            for kind, name in _EVERYBODY
        ]
        answer = await api.call(self.bootstrap, m.CreateAclsRequest(creations=acls))
        if any(result.error_code for result in answer.results):
            raise ProcessError(f"{self.name} takes no ACLs: {answer.results}")

    def settle(self) -> None:
        """Wait until every broker has all that was committed so far, and every replica is in sync.

        A config is changed; the log is in order, so a broker that shows it has the rest too.

        Raises:
            TimeoutError: one does not.
        """
        value = str(next(self._turns))
        asyncio.run(api.set_configs(self.bootstrap, api.TOPIC, _MARKER, {"retention.ms": value}))
        for broker in self.servers:
            seen = functools.partial(_marked, broker.bootstrap, value)
            wait_for(f"{value} on broker {broker.id} of {self.name}", seen)
        wait_for(f"replicas in sync of {self.name}", self._whole)
        # Beside the image a broker has caches of its own (ACLs), filled right after it.
        time.sleep(0.02)

    def _whole(self) -> bool:
        return not asyncio.run(api.shape(self.bootstrap)).short()


def _complete(port: int) -> bool:
    return len(known_to(port)[0]) == COUNT


def _marked(address: str, value: str) -> bool:
    kinds = m.DescribeConfigsRequest
    wanted = kinds.DescribeConfigsResource(
        resource_type=api.TOPIC, resource_name=_MARKER, configuration_keys=["retention.ms"]
    )
    answer = asyncio.run(api.call(address, kinds(resources=[wanted])))
    return any(one.value == value for result in answer.results for one in result.configs)
