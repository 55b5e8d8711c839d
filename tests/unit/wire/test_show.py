"""Declarations as people see them, and the command that prints them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wire import messages, show
from wire.cli import app
from wire.releases import RELEASES, broker_ranges, controller_ranges, forwardable


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_all_apis_with_what_each_release_speaks() -> None:
    code, out, _ = run("show")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["key", "api", "versions", "flexible", *RELEASES]
    row = next(line for line in lines if " AlterPartition " in line)
    assert row.split() == ["56", "AlterPartition", "0-3", "0+", "cz2", *["cz3"] * 5]


def test_one_message_as_a_grid() -> None:
    code, out, _ = run("show", "ElectLeaders")
    assert code == 0
    assert out.splitlines() == [
        "ElectLeadersRequest  key 43  flexible 2+",
        "field                        type               v0  v1  v2",
        "election_type                int8               .   x   x",
        "topic_partitions             []TopicPartitions  x?  x?  x?",
        "topic_partitions.topic       string             x   x   x",
        "topic_partitions.partitions  []int32            x   x   x",
        "timeout_ms                   int32              x   x   x",
    ]


def test_tagged_and_nullable_fields_in_a_grid() -> None:
    _, out, _ = run("show", "partitionchangerecord")
    assert out.splitlines()[0] == "PartitionChangeRecord  record type 5  flexible 0+"
    row = next(line for line in out.splitlines() if "directories " in line)
    assert row.split() == ["directories", "[]uuid", ".", "t8?", "t8?"]


def test_one_version_alone() -> None:
    _, out, _ = run("show", "ElectLeaders", "--version", "1")
    assert out.splitlines()[1].split() == ["field", "type", "v1"]


def test_tables_as_json() -> None:
    rows = json.loads(run("show", "--json")[1])["rows"]
    assert rows[1]["api"] == "Fetch"
    assert rows[1]["3.9"] == "cbz17"
    fields = json.loads(run("show", "ElectLeaders", "--json")[1])["rows"]
    assert fields[0] == {
        "field": "election_type",
        "type": "int8",
        "v0": ".",
        "v1": "x",
        "v2": "x",
    }
    values = json.loads(run("show", "UnregisterBrokerRequest", "--hex", "0000000700", "--json")[1])[
        "rows"
    ]
    assert values[0]["value"] == "7"


def test_generated_source_compiles() -> None:
    code, out, _ = run("show", "BrokerHeartbeatRequest", "--version", "1", "--source")
    assert code == 0
    compile(out, "shown", "exec")
    assert "def decode(b):" in out
    assert "def encode(o):" in out


def test_an_annotated_dump() -> None:
    code, out, _ = run(
        "show", "BrokerHeartbeatResponse", "--version", "0", "--hex", "00000000002901010000"
    )
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:4]] == [
        ["0", "00000000", "throttle_time_ms", "int32", "0"],
        ["4", "0029", "error_code", "int16", "41"],
        ["6", "01", "is_caught_up", "bool", "True"],
    ]


def test_a_dump_of_long_bytes_and_unknown_tags_stays_readable() -> None:
    data = b"\x1f" + b"\xab" * 30 + b"\1\7\2zz"
    text = show.dump(messages.SaslAuthenticateRequest, 2, data).text()
    assert "ababababababababababab.." in text
    assert "30 bytes" in text
    assert "<tag 7>" in text
    assert "7a7a" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("Fetsch",), 2, "no message Fetsch"),
        (("Heartbea",), 2, "did you mean BrokerHeartbeatRequest or"),
        (("Fetch", "--version", "99", "--source"), 2, "has no version 99"),
        (("Fetch", "--hex", "zz"), 2, "non-hexadecimal"),
        (("Fetch", "--hex", "00"), 1, "FetchRequest v17 max_wait_ms at byte 0"),
    ],
)
def test_wrong_questions_are_answered_clearly(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = run("show", *arguments)
    assert (got, out) == (code, "")
    assert words in err


def test_counts_as_json(tmp_path: Path) -> None:
    """No frame at all is no success."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    code, out, _ = run("check", "--json", str(empty))
    assert json.loads(out) == {
        "schema": "wire-check/1",
        "frames": 0,
        "decoded": 0,
        "identical": 0,
    }
    assert code == 1


@pytest.mark.parametrize("line", ["{}", "no json", "[]", '{"api_key": 1, "api_version": "x"}'])
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, line: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(line + "\n")
    code, _, err = run("check", str(bad))
    assert code == 2
    assert "bad.jsonl:1 is no recorded pair" in err


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    code, _, err = run("check", f"{tmp_path}/missing.jsonl")
    assert code == 2
    assert "missing.jsonl" in err


def test_every_release_has_its_ranges() -> None:
    assert controller_ranges("3.4")[1] == (0, 13)
    assert controller_ranges("3.9")[1] == (0, 17)
    assert 80 not in controller_ranges("3.8")
    assert 4 in broker_ranges("3.9", mode="zk")
    assert 4 not in broker_ranges("3.9", mode="kraft")
    assert forwardable("3.9") - forwardable("3.8") == {80, 81}
    for bad in ("4.0", "3.3"):
        with pytest.raises(ValueError, match=r"is none of 3\.4"):
            controller_ranges(bad)
        with pytest.raises(ValueError, match=r"is none of 3\.4"):
            forwardable(bad)
