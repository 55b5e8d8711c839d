"""Envelopes: what goes in, what comes out, and what is not forwarded."""

from __future__ import annotations

from emulator.controller.rules.forwarding import decode_principal
from emulator.net.reply import says
from emulator.seam import Reply
from tests.unit.controller.envelopes import GOLDEN, enveloped, world_with_broker
from tests.unit.controller.world import World, create, header
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request
from wire.releases import forwardable


def test_an_api_without_handler_is_not_spoken_inside_either() -> None:
    """The broker closes the client's connection on this, and the client asks what there is."""
    voter = encode_request(
        RequestHeader(api_key=80, api_version=0, correlation_id=1, client_id="c"),
        m.AddRaftVoterRequest(cluster_id=None),
    )
    (answer,) = world_with_broker().send(enveloped(voter))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_principal_and_address_of_the_client_go_inside() -> None:
    admin = bytes.fromhex("0000 05 55736572 06 61646d696e 00 00")
    assert decode_principal(admin) == ("User:admin", False)
    assert decode_principal(admin[:-2] + b"\x01\x00") == ("User:admin", True)
    inner = encode_request(
        RequestHeader(api_key=55, api_version=2, correlation_id=9, client_id="adm"),
        m.DescribeQuorumRequest(),
    )
    address = bytes(15) + b"\x01"
    world = World()
    assert world.send(enveloped(inner, request_principal=admin, client_host_address=address)) == []
    (call,) = world.controller.answers.take_forwarded()
    assert (call.principal, call.client_address) == ("User:admin", address)
    assert (call.forwarded, call.token_authenticated) == (True, False)
    assert (call.header.client_id, call.header.correlation_id) == ("adm", 9)
    world.controller.answers.answer(Reply(call.ticket, m.DescribeQuorumResponse()))
    (answer,) = world.answers()
    assert decode_response(55, 2, answer.response_data) == (9, m.DescribeQuorumResponse())
    token = admin[:-2] + b"\x01\x00"
    assert world.send(enveloped(inner, request_principal=token)) == []
    (call,) = world.controller.answers.take_forwarded()
    assert (call.principal, call.token_authenticated) == ("User:admin", True)


def test_a_forwarded_describe_quorum_that_met_no_leader_comes_out_as_not_controller() -> None:
    inner = encode_request(
        RequestHeader(api_key=55, api_version=0, correlation_id=9, client_id="adm"),
        m.DescribeQuorumRequest(),
    )
    world = World()
    world.send(enveloped(inner))
    (call,) = world.controller.answers.take_forwarded()
    refused = m.DescribeQuorumResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.controller.answers.answer(Reply(call.ticket, refused))
    (answer,) = world.answers()
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_an_enveloped_request_times_out_inside() -> None:
    world = world_with_broker()
    assert world.send(enveloped(GOLDEN)) == []
    (answer,) = world.later(3_000)
    assert answer.error_code == ErrorCode.NONE
    _, inner = decode_response(19, 5, answer.response_data)
    assert inner.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_plain_create_topics_works_as_well() -> None:
    """Brokers create internal topics so, as themselves."""
    offsets = create("__consumer_offsets", 50, 1)
    answer = world_with_broker().ask(offsets)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 50)


def test_says_looks_everywhere() -> None:
    nested = m.CreateTopicsResponse(
        topics=[m.CreateTopicsResponse.CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)]
    )
    assert says(nested, ErrorCode.NOT_CONTROLLER)
    assert not says(nested, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert says(m.UnregisterBrokerResponse(error_code=41), ErrorCode.NOT_CONTROLLER)


def test_registration_and_heartbeats_are_never_forwarded() -> None:
    keys = {header(one()).api_key for one in (m.BrokerRegistrationRequest, m.EnvelopeRequest)}
    assert not keys & forwardable("3.9")
