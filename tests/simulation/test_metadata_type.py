"""The metadata type that controllers show, in every phase of a migration and through failovers."""

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.node import introspection
from emulator.simulation.checkers.base import Checker
from emulator.trace.exposition import exposition
from emulator.trace.metrics import METADATA_TYPE
from tests.simulation.test_finalising import SCENARIOS, Finalising

EXPECTED = {
    MigrationState.PRE_MIGRATION: "1.0",
    MigrationState.MIGRATION: "3.0",
    MigrationState.POST_MIGRATION: "2.0",
}


class Gauge(Checker):
    """Looks at what each controller shows whenever its state has changed."""

    name = "metadata-type"

    def __init__(self, world):
        super().__init__(world)
        self._known = {}
        self.seen = set()
        """Controller and state of those that were active; None: a standby."""

    def stepped(self, process, effects):
        del effects
        node = process.node
        state = node.controller.stable.migration_state
        now = node.active, state
        if self._known.get(process.name) == now or not state:
            return
        self._known[process.name] = now
        values = introspection.metrics(node, self.world.scheduler.now_ms)
        page = exposition({METADATA_TYPE: values[METADATA_TYPE]}, active=node.active)
        shown = [line for line in page.splitlines() if not line.startswith("#")]
        if not node.active:
            assert shown == [], "a standby shows none"
            self.seen.add((None, state))
            return
        names = METADATA_TYPE.name, "kafka_controller_kafkacontroller_metadatatype"
        assert shown == [f"{name} {EXPECTED[state]}" for name in names]
        self.seen.add((process.name.partition("#")[0], state))

    def leaders(self, state):
        return {name for name, known in self.seen if name is not None and known == state}


@pytest.mark.requirement("M02")
def test_each_leader_shows_it_and_no_standby_does(simulator):
    gauges = []

    def watched(seed, scenario):
        run = simulator(seed, scenario)
        gauges.append(Gauge(run.world))
        run.world.onlookers.append(gauges[0])
        return run

    story = Finalising(watched, 0, SCENARIOS[3])
    story.roll(*story.world.brokers)
    for node_id in story.order:
        story.stop(node_id)
    story.ended()
    (gauge,) = gauges
    last = story.world.active
    last.process.crash()
    story.until(lambda: len(gauge.leaders(MigrationState.POST_MIGRATION)) >= 2, "another leader")
    assert gauge.leaders(MigrationState.PRE_MIGRATION)
    assert len(gauge.leaders(MigrationState.MIGRATION)) >= 2, "a failover in dual write"
    assert {(None, state) for state in EXPECTED} <= gauge.seen
