"""What a release of 4.x refuses or no longer knows, by its own definitions.

The keys and the bounds are the difference of KafkaConfig.configDef and LogConfig.configDefCopy of
Kafka 3.9.2 to those of 4.1.1 and 4.3.0.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.operations.preflight.engine import Finding
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import DumpedZnode, Survey
from tests.unit.operations.preflight.clean import clean, config

GONE = """
alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter
broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
controlled.shutdown.retry.backoff.ms delegation.token.master.key eligible.leader.replicas.enable
group.coordinator.new.enable group.share.max.groups inter.broker.protocol.version
leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
log.message.timestamp.difference.max.ms offsets.commit.required.acks
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret
reserved.broker.max.id zookeeper.connect zookeeper.ssl.client.enable
""".split()
"""In neither of the two. One more, metadata.log.segment.min.bytes, is internal to Kafka."""


def told(release: str, **values: str) -> list[Finding]:
    one = clean("plain")
    first, *others = one.targets
    own = {**first.values, **{key.replace("__", "."): value for key, value in values.items()}}
    survey = replace(one, targets=[replace(first, values=own), *others], target_release=release)
    return [x for x in run(survey).findings if x.code == "W18" and x.znode.startswith(first.name)]


@pytest.mark.parametrize("key", GONE)
def test_each_key_that_is_gone_is_said(key: str) -> None:
    assert key in KAFKA_CONFIG_NAMES
    assert [one.znode for one in told("4.1", **{key: "1"})] == [f"target-0: {key}"]
    assert not told("4.1", **{"num.partitions": "1"})


@pytest.mark.parametrize(
    ("key", "refused", "taken", "since", "before"),
    [
        ("remote.log.manager.copier.thread.pool.size", "-1", "1", "4.0", ""),
        ("remote.log.manager.expiration.thread.pool.size", "-1", "1", "4.0", ""),
        ("metadata.log.segment.bytes", "8388607", "8388608", "4.1", "4.0"),
        ("log.segment.bytes", "1048575", "1048576", "4.1", "4.0"),
        ("num.replica.fetchers", "0", "1", "4.3", "4.2"),
    ],
)
def test_numbers_that_are_too_low_for_a_release(
    key: str, refused: str, taken: str, since: str, before: str
) -> None:
    assert [one.consequence for one in told(since, **{key: refused})] == ["the node does not start"]
    assert not told(since, **{key: taken})
    assert not (before and told(before, **{key: refused}))


def test_without_a_target_release_nothing_is_said() -> None:
    survey: Survey = clean("plain")
    assert "W18" not in {one.code for one in run(survey).findings}


def test_dynamic_configs_of_brokers_are_judged_too() -> None:
    one = clean("plain")
    entries = {"log.segment.bytes": "524288", "log.message.downconversion.enable": "false"}
    path = "/config/brokers/<default>"
    nodes = {**one.nodes, path: DumpedZnode(config({**entries, "num.io.threads": "8"}))}
    for release, count in (("4.0", 1), ("4.1", 2)):
        report = run(replace(one, nodes=nodes, target_release=release))
        told = [x for x in report.findings if (x.code, x.znode) == ("W18", path)]
        assert len(told) == count
        assert "log.message.downconversion.enable is set dynamically" in told[0].fact
    assert told[1].fact.startswith("segment.bytes 524288")
