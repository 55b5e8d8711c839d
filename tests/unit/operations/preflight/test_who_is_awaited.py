"""Which brokers are waited for, which znodes are read, and who may write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import DumpedZnode, of_dump
from tests import data
from tests.unit.operations.preflight.test_rules import (
    CONTROLLER,
    changed,
    found,
    good_nodes,
    survey,
    topic,
)


@pytest.mark.parametrize(
    ("step", "gone"),
    [("1-dualwrite", []), ("3-0-broker0-kraft", ["0"]), ("3-1-broker1-kraft", ["0", "1"])],
)
def test_a_broker_in_kraft_mode_is_not_waited_for_in_dual_write(step: str, gone: list[str]) -> None:
    """Recorded: one broker after the other becomes a KRaft broker, which has no znode."""
    survey = replace(of_dump(data.tree("3.9.2-full", step)), properties=())
    told = [one for one in run(survey).findings if one.code == "B10"]
    assert {one.severity for one in told} <= {Severity.INFO}
    assert [one.znode for one in told] == [f"/brokers/ids/{broker}" for broker in gone]


@pytest.mark.parametrize(
    "nodes",
    [
        {
            "/admin/delete_topics/t": None,
            "/brokers/topics/t": b"oops",
            "/brokers/topics/t/partitions/0/state": None,
            "/config/topics/t": b"oops",
        },
        {"/config/topics/gone": b"oops"},
        {"/brokers/topics/t/partitions/9/state": b"oops"},
        {"/kafka-acl/Planet/t": b"oops"},
        {"/kafka-acl-extended/literal/Topic/t": b"oops"},
        {"/config/changes/config_change_0": b"oops"},
    ],
)
def test_what_no_controller_reads_blocks_nothing(nodes: dict[str, bytes | None]) -> None:
    """Neither kraft-bridge nor Kafka reads these: the copy goes on."""
    one = survey({**good_nodes(), **nodes})
    assert not one.copy.refusals
    assert not found(run(one), "B07")


def test_a_missing_broker_of_a_doomed_topic_is_told_with_the_deletion() -> None:
    doomed = {
        "/admin/delete_topics/t": None,
        "/brokers/topics/t": topic(None, partitions={"0": [9]}),
    }
    (one,) = (x for x in run(survey({**good_nodes(), **doomed})).findings if x.code == "W01")
    assert "Kafka's controllers wait until they have registered" in one.consequence


def test_a_dump_that_does_not_tell_whether_a_znode_is_ephemeral_is_not_judged_by_it() -> None:
    nodes = {path: {"null": True} for path in ("/brokers", "/brokers/ids")}
    text = {"text": '{"version": 5}'}
    told = of_dump({"nodes": {**nodes, "/brokers/ids/1": text}})
    assert not found(run(told), "B10")
    by_hand = of_dump({"nodes": {**nodes, "/brokers/ids/1": {**text, "ephemeral": False}}})
    (one,) = (x for x in run(by_hand).findings if x.code == "B10")
    assert (one.znode, one.severity) == ("/brokers/ids/1", Severity.INFO)
    assert one.fact.startswith("broker 1: registered by no session")


CLOSED = frozenset({"/config/users", "/cluster"})


def test_what_may_not_be_read_is_said_and_not_called_missing() -> None:
    nodes = {
        path: one
        for path, one in good_nodes().items()
        if not path.startswith(("/config/users", "/cluster"))
    }
    report = run(replace(survey(nodes), closed=CLOSED))
    assert not found(report, "B04"), "the cluster id is there, and closed"
    assert not found(report, "B07")
    assert any(
        one.code == "B07" and one.why.startswith("/cluster and 1 more may not be read")
        for one in report.not_run
    )


def test_what_the_controllers_may_not_read_is_a_blocker() -> None:
    report = run(replace(survey(), closed=CLOSED, closed_to="sasl:other"))
    (one,) = (x for x in report.findings if x.code == "B07")
    assert (one.znode, one.severity) == ("/cluster", Severity.BLOCKER)
    assert one.fact == "sasl:other, as whom the controller logs in, may not read it and 1 more"


def test_one_login_may_open_znodes_of_several_owners() -> None:
    """The login of all of them is asked for, and each znode is judged by itself."""
    nodes = {path: DumpedZnode(one) for path, one in good_nodes().items()}
    nodes["/config/users"] = DumpedZnode(None, acl=((31, "sasl", "kafka"), (31, "sasl", "old")))
    nodes["/config/ips"] = DumpedZnode(None, acl=((31, "sasl", "kafka"), (31, "ip", "10.0.0.1")))
    logs_in = (changed("c", CONTROLLER, {"zookeeper.set.acl": "true"}),)
    report = run(replace(survey(), nodes=nodes, properties=logs_in))
    assert not found(report, "B09")
    assert any("belongs to sasl:kafka, and" in one.why for one in report.not_run)
    assert not found(
        run(replace(survey(), nodes=nodes, identities=frozenset({"sasl:kafka"}))), "B09"
    )
    old = run(replace(survey(), nodes=nodes, identities=frozenset({"sasl:old"})))
    (one,) = (x for x in old.findings if x.code == "B09")
    owners, may = "ip:10.0.0.1, sasl:kafka", "may create below and delete below it"
    assert one.znode == "/config/ips"
    assert one.fact == f"{owners} {may}, and the controller has sasl:old"


def test_what_an_identity_lacks_is_named() -> None:
    nodes = {path: DumpedZnode(one) for path, one in good_nodes().items()}
    nodes["/config/users"] = DumpedZnode(None, acl=((31 & ~8, "digest", "kafka:secret"),))
    mine = frozenset({"digest:kafka"})
    (one,) = (
        x for x in run(replace(survey(), nodes=nodes, identities=mine)).findings if x.code == "B09"
    )
    assert one.fact == "nobody may delete below it, and the controller has digest:kafka"
