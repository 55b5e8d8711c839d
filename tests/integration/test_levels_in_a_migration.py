"""metadata.version of a cluster that migrates: what it switches on, and that it stands still."""

from __future__ import annotations

import pytest

from tests.integration.looking import envelopes
from wire import messages as m
from wire.schema import spec

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CHANGED_BY_CLIENTS = {
    spec(kind).key
    for kind in (
        m.CreateTopicsRequest,
        m.DeleteTopicsRequest,
        m.CreatePartitionsRequest,
        m.IncrementalAlterConfigsRequest,
    )
}


MIGRATING = "Unable to modify metadata.version while a ZK migration is in progress."


@pytest.mark.requirement("V11")
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("downgrade-bootstrap-controller", MIGRATING),
        ("upgrade-bootstrap-controller", MIGRATING),
        # Here brokers are registered, and those in ZooKeeper mode support one level each.
        ("downgrade-bootstrap-server", "Broker 0 only supports versions 21"),
        ("upgrade-bootstrap-server", MIGRATING),
    ],
)
def test_kafka_features_is_refused_before_and_behind_the_copy(story, asked, why):
    """Before it at the controller, behind it through a broker; even for the level in force."""
    printed = story.seen[asked]
    text = printed.out + printed.err
    assert printed.code == 1, text
    assert why in text


@pytest.mark.requirement("V02")
def test_brokers_forward_every_request_that_changes_metadata(story):
    """From 3.4-IV0 on; a broker that kept one would write to ZooKeeper itself."""
    forwarded = {header.api_key for header, _message, _envelope in envelopes(story)}
    assert story.seen["asked_for"] | CHANGED_BY_CLIENTS <= forwarded
