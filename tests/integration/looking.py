"""Ways to look at a migration that several test modules share."""

from __future__ import annotations

from emulator.servers.waiting import wait_for
from tests.integration.zookeeper_frames import (
    CREATE,
    DELETE,
    GET_DATA,
    MULTI,
    SET_DATA,
    decode,
    operation,
)
from wire import messages as m
from wire.frame import decode_request

CLAIMED = ("/controller", "/controller_epoch")
"""What a claim writes."""
WRITES = {CREATE, DELETE, SET_DATA, MULTI, 15, 19, 20, 21}


def zk_ops(tap):
    """(seconds, operation code of the request, operations) of each ZooKeeper request."""
    return [(at, *decode(frame)) for at, frame in tap.kept]


def the_claim(story):
    """(seconds, operations) of the multis that write /controller_epoch."""
    return [
        (at, ops)
        for at, code, ops in zk_ops(story.zk_tap)
        if code == MULTI and any(o.code == SET_DATA and o.path == "/controller_epoch" for o in ops)
    ]


def last_registration(story):
    """When the last broker asked to be registered, in seconds."""
    return next(
        at
        for at, _, message in story.controller_tap.decoded
        if isinstance(message, m.BrokerRegistrationRequest) and message.broker_id == 2
    )


def envelopes(story):
    """(header, message, envelope) of each forwarded request."""
    for envelope in story.controller_tap.of(m.EnvelopeRequest):
        header, message = decode_request(envelope.request_data)
        yield header, message, envelope


def dual_writing(status, brokers):
    """Assert that a controller's status says so, with as many brokers in ZooKeeper mode."""
    migration = status["migration"]
    assert (migration["driver_state"], migration["migration_state"]) == ("DUAL_WRITE", "MIGRATION")
    assert [one["kind"] for one in status["brokers"]] == ["zookeeper"] * brokers


def prepared(brokers, controller):
    """Who runs, and which brokers run with the flag of the migration."""
    flags = [broker.migration for broker in brokers if broker.alive]
    return {"brokers": flags, "controller": controller.alive}


def written(requests):
    """Paths that requests to ZooKeeper, as of ``zk_ops``, ask it to write."""
    return {
        op.path
        for _, code, ops in requests
        if code in WRITES
        for op in ops
        if op.code in (CREATE, DELETE, SET_DATA)
    }


def a_new_session(look, tap, broker_id):
    """A broker's session ends, and it gets the next one; when it looked at /controller with it."""
    registered = f"/brokers/ids/{broker_id}"
    before = look.get(registered)[1].czxid
    tap.proxy.freeze()
    wait_for("the end of its session", lambda: look.exists(registered) is None)
    since = len(tap.kept)
    tap.proxy.thaw()

    def back():
        stat = look.exists(registered)
        return stat is not None and stat.czxid != before

    wait_for("its next session", back)
    return wait_for(
        "its look at /controller",
        lambda: [
            at
            for at, frame in tap.kept[since:]
            if operation(frame) == GET_DATA and decode(frame)[1][0].path == CLAIMED[0]
        ],
    )
