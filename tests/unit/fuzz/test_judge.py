"""Each judge sees what it is for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tools.fuzz import judge
from tools.fuzz.frames import Cell, Frame
from wire import messages as m
from wire.frame import RequestHeader, encode_request, encode_response, framed
from wire.schema import spec

UNKNOWN = -1
MIB = 1 << 20


def frame_of(*messages: Any, version: int = 0, **more: Any) -> Frame:
    key = spec(type(messages[0])).key or 0
    data = b"".join(
        framed(
            encode_request(
                RequestHeader(api_key=key, api_version=version, correlation_id=at, client_id="x"),
                message,
            )
        )
        for at, message in enumerate(messages, 1)
    )
    values: dict[str, Any] = {"door": "plain", "user": "admin", **more}
    return Frame(Cell("controller", key, version), 0, data=data, **values)


CREATE = m.CreateTopicsRequest(topics=[m.CreateTopicsRequest.CreatableTopic(name="t")])


def created(code: int, at: int = 1) -> bytes:
    topic = m.CreateTopicsResponse.CreatableTopicResult(name="t", error_code=code)
    return encode_response(19, 7, at, m.CreateTopicsResponse(topics=[topic]))


@pytest.mark.parametrize(("code", "wrong"), [(0, False), (17, False), (UNKNOWN, True)])
def test_an_unknown_server_error_is_seen_wherever_it_is(code: int, wrong: bool) -> None:
    found = judge.of_answers(frame_of(CREATE, version=7), [created(code)], closed=False)
    assert ("UNKNOWN_SERVER_ERROR" in found) == wrong == bool(found)


def test_it_is_seen_in_an_envelope() -> None:
    inner = encode_request(
        RequestHeader(api_key=19, api_version=7, correlation_id=5, client_id="x"), CREATE
    )
    frame = frame_of(m.EnvelopeRequest(request_data=inner))
    for code, wrong in ((0, ""), (UNKNOWN, "UNKNOWN_SERVER_ERROR")):
        answer = m.EnvelopeResponse(response_data=created(code, 5))
        found = judge.of_answers(frame, [encode_response(58, 0, 1, answer)], closed=False)
        assert found.startswith(wrong)
        assert bool(found) == bool(wrong)


def test_answers_belong_to_the_requests_in_their_order() -> None:
    frame = frame_of(CREATE, CREATE, version=7)
    good = [created(0, 1), created(0, 2)]
    assert not judge.of_answers(frame, good, closed=False)
    assert "not 1" in judge.of_answers(frame, good[::-1], closed=False)
    assert "3 answers to 2" in judge.of_answers(frame, [*good, created(0, 3)], closed=False)
    assert "cannot be read" in judge.of_answers(frame, [good[0], good[1][:-3]], closed=False)


def test_who_sends_what_is_valid_is_answered() -> None:
    assert "closed" in judge.of_answers(frame_of(CREATE, version=7), [], closed=True)
    assert "no answer" in judge.of_answers(frame_of(CREATE, version=7), [], closed=False)
    for more in ({"spoilt": "flipped"}, {"closes": True}, {"door": "before"}):
        assert not judge.of_answers(frame_of(CREATE, version=7, **more), [], closed=True)


def test_api_versions_is_answered_in_version_0_where_its_version_is_not_known() -> None:
    data = framed(b"\0\x12\0\x63\0\0\0\1\xff\xff\0")
    frame = Frame(Cell("controller", 18, 3), 1, "plain", "admin", data, "other version")
    answer = encode_response(18, 0, 1, m.ApiVersionsResponse(error_code=35))
    assert not judge.of_answers(frame, [answer], closed=False)


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "[error] a request failed with an internal error api=CreateTopics error=KeyError",
        "kraft-bridge: stopped because of a bug; nothing was written after it",
        "[warning] closing a connection that sent an invalid request why=KeyError(1)",
        "why='not readable before a login: IndexError'",
    ],
)
def test_a_fault_of_the_server_is_seen_in_its_log(line: str) -> None:
    assert judge.of_log(["[info] started", line, "[info] stopped"]) == line


def test_a_refused_frame_is_no_fault() -> None:
    lines = [
        "[warning] closing a connection that sent an invalid request why='Frame at byte 0: …'",
        "[warning] closing a connection why=\"ValueError('its request has no answer')\"",
        "why='not readable before a login: DecodeError'",
        "why='not readable before a login: TooManyEntriesError'",
    ]
    assert not judge.of_log(lines)


def test_failures_that_are_counted_are_seen() -> None:
    name = 'kraft_bridge_request_failures_total{api="Fetch",error="KeyError",place="x"}'
    assert judge.of_metrics(f"# HELP\n{name} 2.0\n") == f"{name} 2.0"
    assert not judge.of_metrics(f"{name} 0.0\nkraft_bridge_requests_total 7.0\n")


def test_a_process_that_grows_after_it_is_warm_is_seen() -> None:
    warm = [(0, 50 * MIB), (50_000, 120 * MIB), (100_000, 100 * MIB)]
    assert not judge.of_memory(warm)
    assert not judge.of_memory([*warm, (105_000, 132 * MIB)])
    found = judge.of_memory([*warm, (105_000, 133 * MIB), (110_000, 100 * MIB)])
    assert found == "120.0 MiB at most in the first 100000 frames, then 133.0 MiB"


def test_a_frame_that_takes_long_each_time_is_seen() -> None:
    assert not judge.of_steps([90.0, 1.0])
    assert judge.of_steps([90.0, 25.5, 31.0]) == "25.5 ms of CPU at least, each time"
