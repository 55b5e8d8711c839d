"""``wire record`` and ``wire show --follow`` as processes, ended by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from emulator.io.kafka_client import Connection
from emulator.testing import Cluster
from tests.unit.commands.running import run
from wire import messages as m
from wire.check import check

MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from emulator.cli import main
main()
"""
VERB = [sys.executable, "-c", MAIN, "wire"]


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*VERB, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_what_passes_is_recorded_shown_and_checked(tmp_path: Path) -> None:
    out = tmp_path / "recording"
    with Cluster() as cluster:
        recording = started(
            *("record", "--listen", "127.0.0.1:0", "--to", cluster.controllers, "--out", out)
        )
        showing = started("show", "DescribeCluster", "--follow", out, "--json")
        try:
            assert showing.stdout is not None
            said = recording.stderr.readline()
            found = re.match(r"recording 127\.0\.0\.1:(\d+) -> ", said)
            assert found is not None, said
            client = Connection("127.0.0.1", int(found[1]), 10)
            answer = client.call(m.DescribeClusterRequest(endpoint_type=2))
            line = json.loads(showing.stdout.readline())
            assert line["resp"]["cluster_id"] == answer.cluster_id == cluster.cluster_id
        finally:
            for process in (recording, showing):
                process.send_signal(signal.SIGINT)
            ended = [process.communicate() for process in (recording, showing)]
        client.close()
    assert ended[0][0] == "pairs=2 withheld=0\n"
    assert (recording.returncode, showing.returncode) == (0, 0), ended
    assert "Traceback" not in ended[0][1] + ended[1][1]
    assert check([out / "wire.jsonl"]).passed
    totals = json.loads((out / "wire.totals.json").read_text())
    assert [(one["api"], one["count"]) for one in totals] == [
        ("ApiVersions", 1),
        ("DescribeCluster", 1),
    ]
    again = ("wire", "record", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--out", out)
    code, _, why = run(*again)
    assert (code, "there is a recording" in why) == (2, True)


def test_what_is_mistyped_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, why = run("wire", "record", "--listen", "127.0.0.1", "--to", "a:1", "--out", out)
    assert (code, "is not host:port" in why) == (2, True)
    listening = ("--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    code, _, why = run("wire", "record", *listening, "--to", "a:1", "--out", out)
    assert (code, "one --to for each" in why) == (2, True)
    itself = ("--listen", "127.0.0.1:9092", "--to", "127.0.0.1:9092")
    code, _, why = run("wire", "record", *itself, "--out", out)
    assert (code, "connect to itself" in why) == (2, True)
    assert not out.exists()
    code, _, why = run("wire", "show", "--follow", out, "--source")
    assert (code, "--follow goes with MESSAGE and --json only" in why) == (2, True)
    code, _, why = run("wire", "show", "DescribeClutser", "--follow", out)
    assert (code, "no message" in why) == (2, True)


def test_an_address_that_is_taken_is_said_and_leaves_no_recording(tmp_path: Path) -> None:
    with Cluster() as cluster:
        taken = cluster.controllers
        out = tmp_path / "out"
        code, _, why = run("wire", "record", "--listen", taken, "--to", "a:1", "--out", out)
    assert code == 1
    assert "in use" in why
    assert not (out / "wire.jsonl").exists()
