"""One of our controllers as a voter between two of Kafka 3.9.2: follows, votes, leads, is led."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.chaos.quorum import described
from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.waiting import wait_for
from tests.integration.mixed_quorum import OURS, RELEASE, MixedQuorum

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

KAFKAS = 3002
"""One of Kafka's."""
ROUNDS_MAX = 20
CHANGES = 60
RECORDS = 500
"""At least so many are replicated."""
CHECK_QUORUM_S = 3
"""After which a leader that hears of no majority resigns."""
SLOW = f"""
import threading
from emulator.io.disk import Writing
sync = Writing._sync
def slow(self, fd):
    threading.Event().wait(2 * {CHECK_QUORUM_S})
    sync(self, fd)
Writing._sync = slow
{COMMAND}
"""
"""A controller of ours whose disk takes long for a large file."""


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedQuorum]:
    """Snapshots after every few records."""
    found = MixedQuorum(
        tmp_path_factory.mktemp("quorum"),
        **{"metadata.log.max.record.bytes.between.snapshots": 4000},
    )
    try:
        found.start()
        yield found
    finally:
        found.kill()


def lead_on(quorum: MixedQuorum, leader: int) -> int:
    """Kill the leader; another one commits changes, and the killed one comes back."""
    quorum.nodes[leader].kill()
    follows = quorum.leader(*(each for each in quorum.nodes if each != leader))
    quorum.change(follows, CHANGES)
    quorum.start(leader)
    return follows


def until_leads(quorum: MixedQuorum, wanted: set[int]) -> int:
    """Kill leaders until one of these leads."""
    leader = quorum.leader()
    for _ in range(ROUNDS_MAX):
        if leader in wanted:
            break
        leader = lead_on(quorum, leader)
    assert leader in wanted
    return leader


def dumped(quorum: MixedQuorum, kafka_tool, node_id: int) -> dict[int, str]:
    """Offset -> what Kafka's own tool says about the record there."""
    files = ",".join(map(str, sorted(quorum.folder(node_id).glob("*.log"))))
    text = kafka_tool(
        RELEASE, "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files
    )
    assert "isvalid: false" not in text
    lines = (re.match(r"\| offset: (\d+) (.*)", line) for line in text.splitlines())
    return {int(found[1]): found[2] for found in lines if found}


def test_each_of_three_leads_twice_and_survives_kill_and_the_logs_are_equal(quorum, kafka_tool):
    """One story, since Kafka's controllers take longer to start than all of this."""
    leader = quorum.leader()
    quorum.change(leader, CHANGES)
    led = Counter({leader: 1})
    for _ in range(ROUNDS_MAX):
        if min(led[each] for each in quorum.nodes) >= 2:
            break
        leader = lead_on(quorum, leader)
        led[leader] += 1
        quorum.wait_equal()
    assert min(led[each] for each in quorum.nodes) >= 2, led
    # How many rounds there were is up to the elections.
    quorum.change(leader, max(0, RECORDS - quorum.changes))

    # Ours leads, and Kafka's voter gets our snapshot.
    until_leads(quorum, {OURS})
    wait_for("a snapshot of ours", lambda: quorum.snapshots(OURS))
    quorum.nodes[KAFKAS].kill()
    quorum.empty(KAFKAS)
    quorum.start(KAFKAS)
    wait_for("our snapshot at Kafka's", lambda: shared(quorum, OURS, KAFKAS))
    quorum.wait_equal()

    # One of Kafka's leads, and ours gets its snapshot.
    leader = until_leads(quorum, {3000, 3002})
    wait_for("a snapshot of Kafka's", lambda: quorum.snapshots(leader))
    quorum.nodes[OURS].kill()
    quorum.empty(OURS)
    quorum.start(OURS)
    wait_for("Kafka's snapshot here", lambda: shared(quorum, leader, OURS))
    quorum.wait_equal()
    state = quorum.folder(OURS) / "voter-state"
    wait_for("a log that lacks nothing", lambda: state.read_bytes() == b"0\nwhole\n")

    assert max(quorum.batches(OURS)) >= RECORDS
    dumps = [dumped(quorum, kafka_tool, each) for each in quorum.nodes]
    for one in dumps[1:]:
        common = dumps[0].keys() & one.keys()
        assert common
        assert {each: one[each] for each in common} == {each: dumps[0][each] for each in common}


def shared(quorum: MixedQuorum, source: int, target: int) -> bool:
    """Whether the target holds a snapshot of the source, byte for byte."""
    ours, theirs = quorum.snapshots(source), quorum.snapshots(target)
    return any(ours.get(name) == data for name, data in theirs.items())


def led_epoch(quorum: MixedQuorum, node_id: int) -> int:
    """The epoch that a voter leads, once it leads one."""
    said = wait_for("a word of the leader", lambda: described(quorum.ports[node_id]))
    return int(said.leader_epoch)


def test_kafkas_leader_goes_on_while_the_only_other_voter_writes_its_snapshot(quorum):
    """Ours asks for nothing but signs that it is here; Kafka's leader counts them."""
    leader = until_leads(quorum, {3000, 3002})
    [third] = quorum.nodes.keys() - {leader, OURS}
    quorum.change(leader, CHANGES)
    wait_for("a snapshot of Kafka's", lambda: quorum.snapshots(leader))
    ours = quorum.nodes[OURS]
    assert isinstance(ours, Bridge)
    ours.kill()
    quorum.empty(OURS)
    epoch = led_epoch(quorum, leader)
    ours.command = SLOW
    quorum.start(OURS)
    wait_for("it on its way", lambda: [*quorum.folder(OURS).glob("*.checkpoint.part")])
    begin = time.monotonic()
    quorum.nodes[third].kill()
    wait_for("it on the disk", lambda: quorum.snapshots(OURS))
    assert time.monotonic() - begin > CHECK_QUORUM_S, "void: it was no long time"
    assert led_epoch(quorum, leader) == epoch
    quorum.change(leader, 1)
    assert led_epoch(quorum, leader) == epoch

    ours.kill()
    ours.command = COMMAND
    quorum.start(OURS, third)
    quorum.wait_equal()
