"""KIP-590 "Protocol Bumps" and "Response Handling": what was planned, and what brokers really do.

On recorded frames of real brokers of 3.4.1, 3.7.2 and 3.9.2, and on our controller.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests import data
from tests.unit.controller.envelopes import GOLDEN, enveloped, world_with_broker
from wire import messages as m
from wire.frame import decode_request, decode_response, encode_response, split_request
from wire.releases import broker_ranges

ENVELOPE = 58
BUMPED = {33: 2, 44: 2, 30: 3, 31: 3, 49: 1, 38: 3, 39: 3, 40: 3}
"""API key -> the version in which KIP-590 wanted clients to go to the controller."""
SHIPPED = {33: 2, 44: 1, 30: 3, 31: 3, 49: 1, 38: 3, 39: 2, 40: 2}
"""API key -> newest version of Kafka 3.3 and above; those that are equal were raised for other
reasons (flexible versions, the owner of a token)."""
RECORDED = {"3.4.1-short": "3.4", "3.7.2-short": "3.7", "3.9.2-full": "3.9"}


def frames(folder: str) -> list[tuple[str, int, bytes, bytes]]:
    """(channel, API key, request, response) of every recorded exchange."""
    return [
        (
            one["chan"],
            one["api_key"],
            base64.b64decode(one["request"]),
            base64.b64decode(one["response"]),
        )
        for one in data.lines(f"{folder}/wire.jsonl")
        if one.get("response")
    ]


@pytest.mark.parametrize("folder", RECORDED)
@pytest.mark.requirement("I16")
def test_a_broker_passes_the_inner_answer_on_as_it_is(folder: str) -> None:
    """What a client got is, byte for byte, what the controller put into the Envelope."""
    clients: dict[tuple[str, bytes], list[bytes]] = {}
    inner: list[tuple[str, bytes, bytes]] = []
    for channel, key, request, response in frames(folder):
        if channel.endswith(".client"):
            clients.setdefault((channel[1:3], request), []).append(response)
        elif key == ENVELOPE:
            _, envelope = decode_request(request)
            _, answer = decode_response(ENVELOPE, 0, response)
            if answer.response_data is not None:
                inner.append((channel[:2], envelope.request_data, answer.response_data))
    seen = [
        clients[broker, request] for broker, request, _ in inner if (broker, request) in clients
    ]
    passed = [answer for broker, request, answer in inner if (broker, request) in clients]
    assert passed
    assert all(answer in answers for answer, answers in zip(passed, seen, strict=True))


@pytest.mark.requirement("I16")
def test_our_envelope_holds_the_bytes_of_the_direct_answer() -> None:
    """Only the correlation id is the inner request's own."""
    header, message = decode_request(GOLDEN)
    direct = world_with_broker().ask(message, version=header.api_version)
    answer = world_with_broker().ask(enveloped(GOLDEN))
    expected = encode_response(header.api_key, header.api_version, header.correlation_id, direct)
    assert answer.response_data == expected


@pytest.mark.parametrize(("folder", "release"), RECORDED.items())
@pytest.mark.requirement("I17")
def test_the_bumps_of_the_kip_were_not_released(folder: str, release: str) -> None:
    """Real brokers list the versions we know; none of them sends a client to the controller."""
    listed: list[dict[int, int]] = []
    for channel, key, request, response in frames(folder):
        if key == 18 and channel.endswith(".client"):
            header, _ = split_request(request)
            _, answer = decode_response(18, header.api_version, response)
            listed.append({one.api_key: one.max_version for one in answer.api_keys})
    assert listed
    for one in listed:
        # A controller of 3.4 takes no delegation tokens, so its brokers list none in dual write.
        assert {30, 31, 33, 44, 49} <= one.keys()
        assert {key: version for key, version in one.items() if key in SHIPPED}.items() <= (
            SHIPPED.items()
        )
    ours = broker_ranges(release, mode="zk")
    assert {key: ours[key][1] for key in SHIPPED} == SHIPPED
    missing = {key for key, version in BUMPED.items() if SHIPPED[key] < version}
    assert missing == {44, 39, 40}


@pytest.mark.requirement("I18")
def test_no_broker_sends_a_client_of_a_new_version_away() -> None:
    """The newest AlterConfigs through a broker that is no controller is forwarded, not refused."""
    newest = [
        (channel, decode_request(request)[0].api_version, decode_response(33, 2, response)[1])
        for channel, key, request, response in frames("3.9.2-full")
        if key == 33 and channel.endswith(".client")
    ]
    assert newest
    for _channel, version, answer in newest:
        assert version == SHIPPED[33]
        assert codes(answer) == {0}


def codes(answer: Any) -> set[int]:
    assert isinstance(answer, m.AlterConfigsResponse)
    return {int(one.error_code) for one in answer.responses}


@pytest.mark.requirement("I17", "I18")
def test_the_page_of_differences_says_so() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dev" / "kips.md").read_text()
    row = next(line for line in page.splitlines() if "version bumps and metrics of KIP-590" in line)
    assert "neither was released" in row
    assert "NOT_CONTROLLER" in row
