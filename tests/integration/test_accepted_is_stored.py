"""Whatever was answered NONE is in a real ZooKeeper a moment later, at the edges of size too.

``KRAFT_BRIDGE_EDGES`` multiplies the number of requests.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from bench.judge import matrix_stores as judge
from bench.judge import stores
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import BROKERS, Stage, staged
from tests.kit.edges import EdgeAdmin, refusals
from tests.kit.laws import at_least
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

REQUESTS = 30 * at_least(1, "KRAFT_BRIDGE_EDGES")
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FULL = {ErrorCode.POLICY_VIOLATION, ErrorCode.UNACCEPTABLE_CREDENTIAL}


def unequal(stage: Stage) -> list[str]:
    """Where the two stores differ, read by others than the controller."""
    tree = contents(dump(stage.zookeeper.hosts, with_secrets=True))
    log = judge.read_log(stores.dump_log(stage.bridge.data))
    assert log.of("acl")
    assert log.of("scram")
    assert log.of("quota")
    found = judge.differences(judge.read_tree(tree), log)
    return [re.sub(r"(.{1,3})\1{9,}", r"\1...", one) for one in found]


@pytest.mark.requirement("W11")
@pytest.mark.parametrize("seed", [18])
def test_what_is_accepted_at_the_edges_is_in_both_stores(
    zookeeper: ZooKeeper, tmp_path: Path, seed: int
) -> None:
    """Znodes of a megabyte, names of 249 and 32,000 characters, of every alphabet."""
    admin = EdgeAdmin(Random(seed), BROKERS)
    codes: list[int] = []
    with staged(zookeeper, tmp_path, PROPERTIES) as stage:
        for _ in range(REQUESTS):
            request = admin.request()
            (answered,) = stage.ask(request)
            codes += refusals(request, answered.message)
        assert FULL & set(codes), "some of it was too much"
        assert not {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT} & set(codes)
        assert stage.settle()["migration"]["poisoned"] == []
        tree = contents(dump(zookeeper.hosts))
        assert max(len(data or b"") for data in tree.values()) > 1_000_000
        # A new life reads all of it back, and finds nothing to write.
        stage.bridge.kill()
        stage.bridge.start()
        stage.revive()
        assert unequal(stage) == []
