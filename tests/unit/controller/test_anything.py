"""Whatever a peer sends, the controller answers: no request may end the node."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.registry import advertised, handlers
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.controller.tables.index import TipIndex
from tests.laws.wire_values import Maker
from tests.unit.controller.test_index import contents
from tests.unit.controller.world import CLUSTER, World, create, registration, uuid
from wire import messages as m
from wire.codec import decode, encode
from wire.frame import encode_response
from wire.schema import Field, Layout, layout

STRINGS = (
    *("", "t", "u", "a.b", "a_b", "0", "1", "9", "3000", CLUSTER, "INTERNAL"),
    *("metadata.version", "kraft.version", "retention.ms", "cleanup.policy", "log.cleaner.threads"),
    *("compact", "-1", "5", "delete", "true", "unclean.leader.election.enable"),
)
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 8, 21, 101, 2**31 - 1)


class Plausible(Maker):
    """Values that mean something to a controller, now and then ones that do not."""

    def __init__(self, rng: random.Random, world: World) -> None:
        super().__init__(rng, small=True, unknown=0.0)
        self.uuids = [
            bytes(16),
            *(uuid(number) for number in (0, 1, 2, 5000, 5001)),
            *world.tip.topics,
        ]
        self.brokers = [*world.tip.brokers.values()]

    def message(self, form: Layout, depth: int = 0) -> Any:
        made = super().message(form, depth)
        if depth == 0 and self.rng.random() < 0.8:
            self.mend(made)
        return made

    def mend(self, request: Any) -> None:
        """Let a broker know who and where it is, or most requests would end there."""
        if isinstance(request, m.BrokerRegistrationRequest):
            good = registration(request.broker_id % 4)
            for name in ("cluster_id", "features", "listeners"):
                setattr(request, name, getattr(good, name))
            request.broker_id = good.broker_id
            request.log_dirs = good.log_dirs
        elif hasattr(request, "broker_epoch") and self.brokers:
            broker = self.rng.choice(self.brokers)
            request.broker_id, request.broker_epoch = broker.id, broker.epoch
            if isinstance(request, m.BrokerHeartbeatRequest):
                request.current_metadata_offset = broker.epoch + self.rng.randint(-1, 30)

    def single(self, entry: Field, depth: int) -> Any:
        if entry.group is not None or self.rng.random() < 0.1:
            return super().single(entry, depth)
        if entry.kind == "string":
            return self.rng.choice(STRINGS)
        if entry.kind == "uuid":
            return self.rng.choice(self.uuids)
        if entry.kind in {"int32", "int64"}:
            return self.rng.choice(NUMBERS)
        if entry.kind in {"int8", "int16"}:
            return self.rng.choice((-1, 0, 1, 2, 3, 4, 21))
        return super().single(entry, depth)


def populated(*, migration: bool) -> World:
    everything = StandardAuthorizer(frozenset({"User:ANONYMOUS"}))
    world = World(migration_enabled=migration, num_partitions=2, authorizer=everything)
    if migration:
        world.join(0, 1, is_migrating_zk_broker=True, metadata_version=(21, 21))
    else:
        world.join(0, 1)
        world.ask(create("t", 3, 2))
        world.ask(create("a.b", 1, 1))
    return world


@given(seed=st.integers(0, 2**32), migration=st.booleans())
def test_every_request_is_answered_and_everything_can_be_sent(seed: int, migration: bool) -> None:
    """A walk of 25 requests; the index and the replayed log agree with the image at every end."""
    rng = random.Random(seed)
    world = populated(migration=migration)
    keys = sorted(handlers())
    for _ in range(25):
        key = rng.choice(keys)
        version = rng.randint(*advertised("3.9")[key])
        form = layout(handlers()[key].request, version)
        request = Plausible(rng, world).message(form)
        if isinstance(request, m.EnvelopeRequest):
            continue
        arrived = decode(form.cls, version, encode(request, version))
        answers = world.send(arrived, version)
        world.commit()
        answers += world.answers()
        assert len(answers) == 1, request
        assert encode_response(key, version, 1, answers[0])
        world.later(rng.choice((0, 0, 100, 3_000)))
        world.commit()
        world.answers()
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))
    assert set(world.tip.brokers) == set(world.controller.heartbeats._sessions)
    assert len(world.controller.gate) == 0
