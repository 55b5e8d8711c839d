"""A recording as it is written, for people."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wire import messages as m
from wire.follow import follow, shown
from wire.frame import RequestHeader, encode_request, encode_response


def line(number: int = 1, answered: bool = True, client: str = "me") -> str:
    header = RequestHeader(20, 6, number, client)
    state = m.DeleteTopicsRequest.DeleteTopicState
    request = encode_request(header, m.DeleteTopicsRequest(topics=[state(name="orders")]))
    result = m.DeleteTopicsResponse.DeletableTopicResult
    answer = m.DeleteTopicsResponse(responses=[result(name="orders", error_code=3)])
    response = encode_response(20, 6, number, answer)
    pair = {
        "n": number,
        "t_req": 1_700_000_000.5,
        "t_resp": 1_700_000_000.75,
        "chan": ">b:1",
        "conn": 3,
        "api_key": 20,
        "api": "DeleteTopics",
        "api_version": 6,
        "corr": number,
        "client_id": client,
        "request": base64.b64encode(request).decode(),
        "response": base64.b64encode(response).decode() if answered else None,
    }
    return json.dumps({**pair, **({} if answered else {"t_resp": None})})


def test_a_pair_is_shown_decoded() -> None:
    head, asked, answered = shown(line()).text().splitlines()
    assert head == "22:13:20.500 >b:1 conn 3 corr 1 me DeleteTopics v6"
    assert asked.startswith('  ask  {"topics": [{"name": "orders"')
    assert answered.startswith("  got 250.0 ms  {")
    assert '"error_code": 3' in answered
    assert shown(line(answered=False)).text().endswith("\n  got  no answer\n")


def test_as_json_nothing_is_cut_off_and_frames_are_left_out() -> None:
    one = json.loads(shown(line()).json())
    assert one["resp"]["responses"][0]["error_code"] == 3
    assert one["req"]["topics"] == [{"name": "orders", "topic_id": "00" * 16}]
    assert "request" not in one


def test_the_request_in_an_envelope_is_shown() -> None:
    inner = json.loads(line())
    envelope = m.EnvelopeRequest(request_data=base64.b64decode(inner["request"]))
    asked = encode_request(RequestHeader(58, 0, 9, "0"), envelope)
    answer = m.EnvelopeResponse(response_data=base64.b64decode(inner["response"]))
    pair = {
        "api_key": 58,
        "api": "Envelope",
        "api_version": 0,
        "request": base64.b64encode(asked).decode(),
        "response": base64.b64encode(encode_response(58, 0, 9, answer)).decode(),
    }
    one = shown(json.dumps(pair))
    assert "Envelope v0 (DeleteTopics v6)" in one.text()
    assert one.request["request_data"]["topics"][0]["name"] == "orders"
    assert one.response["response_data"]["responses"][0]["error_code"] == 3
    assert one.is_about("deletetopics")
    assert one.is_about("envelope")
    assert not one.is_about("createtopics")


def test_texts_of_peers_do_not_control_the_terminal() -> None:
    assert "\x1b" not in shown(line(client="\x1b[2Jme\n")).text()
    assert len(shown(line(client="\n")).text().splitlines()) == 3
    assert "\x1b" not in shown(json.dumps(json.loads(line()) | {"api": "\x1b[2J"})).text()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "3", '{"api_key": "x"}', "[" * 100_000, line()[:-10]),
        line().replace('"api_key": 20', '"api_key": Infinity'),
    ],
)
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no recorded pair"):
        shown(text)


@pytest.mark.parametrize("name", ["t_req", "t_resp"])
@pytest.mark.parametrize("value", ["x", [0], 1e300, float("nan"), -1])
def test_a_time_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"no recorded pair: {name} is not a time"):
        shown(json.dumps(json.loads(line()) | {name: value}))


def test_bytes_after_a_request_are_ignored_as_servers_do() -> None:
    pair = json.loads(line())
    longer = base64.b64decode(pair["request"]) + b"abc"
    one = shown(json.dumps(pair | {"request": base64.b64encode(longer).decode()}))
    assert one.request == shown(line()).request


def test_frames_that_cannot_be_read_are_shown_as_such() -> None:
    pair = json.loads(line()) | {"request": "AAAA", "response": "AAAA"}
    one = shown(json.dumps(pair))
    assert one.request.startswith("not decoded: ")
    assert one.response.startswith("not decoded: ")


def steps(*then: Callable[[], object]) -> Callable[[], bool]:
    """Do one thing at each wait, then end."""
    left = list(then)

    def wait() -> bool:
        if not left:
            return False
        left.pop(0)()
        return True

    return wait


def test_lines_are_followed_as_they_are_completed(tmp_path: Path) -> None:
    file = tmp_path / "wire.jsonl"

    def add(text: str) -> Callable[[], object]:
        def write() -> None:
            with file.open("a") as out:
                out.write(text)

        return write

    wait = steps(add("one\ntw"), add("o\nthree"), add("\n"), add("four"))
    assert list(follow(tmp_path, wait)) == ["one", "two", "three"]
    assert list(follow(file, steps())) == ["one", "two", "three"]


def test_a_file_that_is_replaced_or_emptied_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "wire.jsonl"
    file.write_text("one\ntw")
    other = tmp_path / "other"
    other.write_text("1\n2\n")
    wait = steps(lambda: other.replace(file), lambda: file.write_text("x\n"))
    assert list(follow(file, wait)) == ["one", "1", "2", "x"]


def test_a_folder_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "later"

    def make() -> None:
        folder.mkdir()
        (folder / "wire.jsonl").write_text("one\n")

    assert list(follow(folder, steps(lambda: None, make))) == ["one"]
