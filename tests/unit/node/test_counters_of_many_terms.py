"""What a process counts never goes back, however often it loses and wins its leadership."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emulator.node.introspection import metrics
from emulator.trace import metrics as metric
from emulator.trace.metric import MetricKind
from tests.kit.requests import quota
from tests.unit.node.migrating_quorum import MigratingQuorum, in_dual_write
from tests.unit.node.test_deposed_of_three import noticed, raise_epoch
from tests.unit.node.test_quorum import IDS


def counted(quorum: MigratingQuorum, node_id: int) -> dict[tuple[str, Any], float]:
    """Every counter of a process, and count and sum of every distribution."""

    def rows() -> Iterator[tuple[tuple[str, Any], float]]:
        for one, value in metrics(quorum.node(node_id), quorum.joined.now_ms).items():
            if one.kind is MetricKind.GAUGE:
                continue
            labelled = value.items() if isinstance(value, dict) else [((), value)]
            for labels, number in labelled:
                if one.kind is MetricKind.COUNTER:
                    yield (one.name, labels), number
                else:
                    yield (f"{one.name} count", labels), number.count
                    yield (f"{one.name} sum", labels), number.total

    return dict(rows())


def test_no_counter_goes_back_when_terms_end_and_begin() -> None:
    quorum, first = in_dual_write(kraftbridge_zk_write_behind_max_records="2")
    seen = {each: counted(quorum, each) for each in IDS}
    led = []

    def look() -> None:
        for each in IDS:
            now = counted(quorum, each)
            fell = {key: (was, now.get(key, 0)) for key, was in seen[each].items()}
            assert not {key: pair for key, pair in fell.items() if pair[1] < pair[0]}
            seen[each] = now

    for term in range(8):
        leader = quorum.leader
        led.append(leader)
        quorum.cut_zookeeper()
        asker = quorum.joined.ask((f"host-{leader}", 9093))
        for number in range(5):
            asker.send(quota(1e6, f"user-{term}-{number}"), 1)
        quorum.joined.wait(500)
        look()
        quorum.heal_zookeeper()
        quorum.wait_written()
        look()
        raise_epoch(quorum)
        noticed(quorum, leader)
        look()
        quorum.joined.until(lambda: quorum.active() != [leader])  # noqa: B023  # called at once
        quorum.joined.wait(2_000)
        look()
    assert led.count(first) > 1
    blocked = metric.ZK_WRITE_BLOCKING_KRAFT_TOTAL_MS.name
    assert sum(one[blocked, ()] for one in seen.values()) > 3_000
