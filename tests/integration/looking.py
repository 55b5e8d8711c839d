"""Ways to look at a migration that several test modules share."""

from __future__ import annotations

from tests.integration.zookeeper_frames import MULTI, SET_DATA, decode
from wire import messages as m
from wire.frame import decode_request


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
