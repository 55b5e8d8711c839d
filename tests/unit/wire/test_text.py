"""Uuids as text; error codes by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ErrorCode
from wire.text import uuid_from_text, uuid_text


@given(st.binary(min_size=16, max_size=16))
def test_uuids_come_back(uuid: bytes) -> None:
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


def test_the_metadata_topic() -> None:
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21 + "B", "A" * 23, "+" * 22, "A" * 21 + "\n"])
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="no uuid"):
        uuid_from_text(text)


def test_the_reason_counts_characters_or_shows_the_uuid_that_was_meant() -> None:
    with pytest.raises(ValueError, match="it has 3 characters, not 22"):
        uuid_from_text("foo")
    with pytest.raises(ValueError, match="beyond 128 are not 0, as in MkU3OEVBNTcwNTJENDM2Qg"):
        uuid_from_text("MkU3OEVBNTcwNTJENDM2Qk")


def test_other_sizes_are_no_uuid() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        uuid_text(b"abc")


def test_error_codes() -> None:
    assert ErrorCode.NOT_CONTROLLER == 41
    assert ErrorCode(-1).name == "UNKNOWN_SERVER_ERROR"
    assert ErrorCode.NOT_CONTROLLER.retriable
    assert not ErrorCode.INVALID_REQUEST.retriable
    assert [int(code) for code in ErrorCode] == list(range(-1, 128))
