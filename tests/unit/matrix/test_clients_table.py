"""What the table of clients calls a difference, and how answers are made comparable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from bench.matrix.clients import table
from bench.matrix.clients.clients import PythonClient
from bench.matrix.clients.known import KNOWN, Known
from bench.matrix.clients.python.loop import shown
from bench.matrix.readers.outcome import Outcome, plain
from emulator.servers.process import ProcessError

OTHER = "Kafka + ours"


def rows(*pairs: tuple[str, str]) -> list[table.Row]:
    return table.rows(
        {
            table.REFERENCE: [Outcome("lib", f"call {n}", a) for n, (a, _) in enumerate(pairs)],
            OTHER: [Outcome("lib", f"call {n}", b) for n, (_, b) in enumerate(pairs)],
        }
    )


def test_equal_answers_are_no_difference() -> None:
    judged = table.judge(rows(("a", "a")), [])
    assert (judged.wrong, judged.known) == ([], {})
    assert "| `call 0` | a | = |" in table.markdown(judged)
    assert "| lib | 1 | same |" in table.summary(judged)


def test_a_difference_without_a_reason_is_wrong_and_shown() -> None:
    judged = table.judge(rows(("a", "a"), ("one\nboth", "two\nboth")), [])
    assert [(row.call, column) for row, column in judged.wrong] == [("call 1", OTHER)]
    assert "DIFFERS" in table.markdown(judged)
    assert "1 differ, 1 unexplained" in table.summary(judged)
    assert table.details(judged).splitlines()[1:] == ["  - one", "  + two"]


def test_a_reason_holds_for_its_call_and_column_only() -> None:
    why = Known("lib", "call 1", (OTHER,), "meant", "meant")
    judged = table.judge(rows(("a", "b"), ("a", "b")), [why])
    assert [row.call for row, _ in judged.wrong] == ["call 0"]
    assert list(judged.known) == [("lib", "call 1", OTHER)]
    elsewhere = Known("lib", "call 1", ("ours + ours",), "meant", "meant")
    assert len(table.judge(rows(("a", "b"), ("a", "b")), [elsewhere]).wrong) == 2


def test_a_reason_explains_only_what_it_is_about() -> None:
    reason = Known("lib", ".*", (OTHER,), "meant", "", contains="INVALID")
    judged = table.judge(rows(("a", "INVALID: b"), ("a", "no answer")), [reason])
    assert [row.call for row, _ in judged.wrong] == ["call 1"]
    aside = Known("lib", ".*", (OTHER,), "meant", "", aside="(?m)^old: .*$")
    judged = table.judge(rows(("old: 1\nnew: 1", "new: 1"), ("old: 1\nnew: 1", "new: 2")), [aside])
    assert [row.call for row, _ in judged.wrong] == ["call 0", "call 1"]
    line = Known("lib", ".*", (OTHER,), "meant", "", aside="(?m)^old: .*\n?")
    judged = table.judge(rows(("old: 1\nnew: 1", "new: 1"), ("old: 1\nnew: 1", "new: 2")), [line])
    assert [row.call for row, _ in judged.wrong] == ["call 1"]


def test_a_reason_that_explains_nothing_is_told() -> None:
    why = Known("lib", "call 0", (OTHER,), "long ago", "")
    judged = table.judge(rows(("a", "a")), [why])
    assert judged.stale == [why]
    assert "long ago" in table.details(judged)
    assert not table.judge(rows(("a", "a")), [Known("other", ".*", (OTHER,), "", "")]).stale


def test_columns_of_other_calls_are_refused() -> None:
    one, other = Outcome("lib", "x", ""), Outcome("lib", "y", "")
    with pytest.raises(ValueError, match="not the same calls"):
        table.rows({table.REFERENCE: [one], OTHER: [other]})
    with pytest.raises(ValueError, match="argument"):
        table.rows({table.REFERENCE: [one], OTHER: []})


def test_only_what_no_two_runs_share_is_taken_out() -> None:
    assert shown({"controller_id": 2, "topic_id": "0123456789abcdefABCDEF"}) == (
        "controller_id: <one>\ntopic_id: <id>"
    )
    assert shown({"topic_id": "A" * 22}) == "topic_id: <none>"
    assert shown({"replicas": [2, 0, 1]}) != shown({"replicas": [0, 1, 2]})
    assert shown([{"name": "b"}, {"name": "a"}]) == shown([{"name": "a"}, {"name": "b"}])
    assert plain("InvalidPartitionsError: x") == "InvalidPartitionsError: x"
    assert plain("id 0123456789-_cdefABCDEF") == "id <id>"


def test_the_loop_answers_in_order_and_survives_what_a_call_raises() -> None:
    program = (
        "from bench.matrix.clients.python.loop import serve\n"
        "serve({'good': lambda: print('noise') or {'a': 1}, 'bad': lambda: 1 / 0})\n"
    )
    asked = "".join(json.dumps({"call": call}) + "\n" for call in ("bad", "good"))
    done = subprocess.run(
        [sys.executable, "-c", program], input=asked, capture_output=True, text=True, check=True
    )
    calls, bad, good = map(json.loads, done.stdout.splitlines())
    assert calls == {"calls": ["good", "bad"]}
    assert bad == {"text": "ZeroDivisionError: division by zero"}
    assert good == {"text": "a: 1"}


FLEETING = """#!{python}
import json, sys
print(json.dumps({{"calls": ["first", "last"]}}), flush=True)
if json.loads(input())["call"] == "first":
    print(json.dumps({{"text": "done by " + " ".join(sys.argv[1:])}}), flush=True)
"""


def test_a_client_process_that_ends_is_started_anew(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(FLEETING.format(python=sys.executable))
    program.chmod(0o755)
    client = PythonClient("lib", "some_calls", program)
    try:
        assert client.begin("h:1") == ["first", "last"]
        assert client.ask("first") == "done by -m bench.matrix.clients.python.some_calls h:1"
        assert client.ask("last").startswith("NO ANSWER")
        assert client.ask("first").startswith("done")
    finally:
        client.end()


def test_a_client_that_does_not_start_is_named() -> None:
    with pytest.raises(ProcessError, match="lib cannot connect to h:1"):
        PythonClient("lib", "some_calls", Path("/bin/true")).begin("h:1")


def test_every_reason_is_a_sentence() -> None:
    assert all(len(one.why.split()) > 3 for one in KNOWN)


def test_an_error_of_a_partition_is_shown() -> None:
    """Both columns had NotImplementedError, whatever the controller answered."""
    error = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert "UNKNOWN_TOPIC_OR_PART" in shown({TopicPartition("t", 0): error})
