"""``kraft-bridge load`` on a cluster inside this process."""

import json
import os
import signal
import socket

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bench.load import connection, session
from bench.load.admin import AdminLoad
from emulator.cli import app
from emulator.commands.json_forms import FORMS
from emulator.io import kafka_client
from emulator.testing import Cluster
from tests.kit.json_form import problems

CHANGES = {"CreateTopics", "DeleteTopics", "CreatePartitions", "IncrementalAlterConfigs"}


def load(*arguments):
    return CliRunner().invoke(app, ["load", *map(str, arguments)])


@pytest.fixture(scope="module")
def ours():
    with Cluster(brokers=2, fsync=False) as running:
        yield running


def test_changes_are_made_and_traced(ours, tmp_path):
    said = load(
        *("--bootstrap-server", ours.bootstrap, "--rate", 60, "--duration", 1, "--json"),
        *("--topics", 4, "--trace", tmp_path, "--run-id", "mine", "--client-id", "me"),
    )
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert problems(FORMS["load"], found) == []
    assert (found["intended"], found["done"], found["failed"]) == (60, 60, 0)
    assert set(found["waits"]) <= CHANGES
    assert sum(one["count"] for one in found["waits"].values()) == 60
    rows = pq.read_table(tmp_path / "requests").to_pylist()
    assert len(rows) == 60
    assert {(row["process"], str(row["run_id"]), row["client_id"]) for row in rows} == {
        ("me", "mine", "me")
    }
    assert all(row["intended_ns"] <= row["sent_ns"] <= row["answered_ns"] for row in rows)


def test_a_trace_that_cannot_be_written_ends_no_load(ours, tmp_path):
    (tmp_path / "requests").write_text("no folder")
    said = load(
        *("--bootstrap-server", ours.bootstrap, "--rate", 20, "--duration", 1, "--json"),
        *("--topics", 4, "--trace", tmp_path, "--prefix", "untraced"),
    )
    assert said.exit_code == 1
    assert json.loads(said.stdout)["done"] == 20
    assert f"--trace {tmp_path}: the trace stopped: " in said.stderr
    assert said.stderr.rstrip().endswith(" s are missing")


def test_without_a_duration_it_ends_by_a_signal_and_says_what_it_did(ours, monkeypatch):
    told, sent = AdminLoad.progress, []

    def progress(self):
        if not sent and self.result.done.total() > 3:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        return told(self)

    monkeypatch.setattr(session, "_PROGRESS_S", 0.2)
    monkeypatch.setattr(AdminLoad, "progress", progress)
    said = load("--bootstrap-server", ours.bootstrap, "--rate", 40, "--prefix", "endless")
    assert said.exit_code == 0, said.output
    assert "no more changes; waiting for the answers" in said.output
    assert "topics left: " in said.stdout
    assert "named endless-..." in said.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--bootstrap-server", "127.0.0.1:1"], "--bootstrap-server: 127.0.0.1:1: "),
        (["--bootstrap-server", "nonsense"], "--bootstrap-server nonsense"),
        (["--bootstrap-server", ","], "--bootstrap-server ,"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "0"], "--rate"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "nan"], "--rate"),
        (["--bootstrap-server", "127.0.0.1:1", "--duration", "0"], "--duration"),
        (["--bootstrap-server", "127.0.0.1:1", "--prefix", "a/b"], "--prefix 'a/b'"),
        (["--bootstrap-server", "127.0.0.1:1", "--client-id", "../x"], "--client-id '../x'"),
        (["--bootstrap-server", "127.0.0.1:1", "--run-id", ".."], "--run-id '..'"),
    ],
)
def test_a_wrong_option_ends_with_2(arguments, why):
    rate = [] if "--rate" in arguments else ["--rate", "10"]
    said = (
        load(*arguments, *rate, "--duration", "1")
        if "--duration" not in arguments
        else load(*arguments, *rate)
    )
    nobody = arguments == ["--bootstrap-server", "127.0.0.1:1"]
    assert said.exit_code == (3 if nobody else 2), said.output
    assert why in said.output


def test_changes_that_are_refused_end_with_1(ours):
    said = load(
        *("--bootstrap-server", ours.bootstrap, "--rate", 20, "--duration", 0.5),
        *("--replication-factor", 9),
    )
    assert said.exit_code == 1
    assert "failed: CreateTopics: INVALID_REPLICATION_FACTOR" in said.output


def test_a_broker_that_does_not_answer_is_named_as_it_was_written():
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = load("--bootstrap-server", address, "--rate", 5, "--duration", 1)
    assert said.exit_code == 3
    assert f"--bootstrap-server: {address}: Connection refused" in said.output
    assert "Errno" not in said.output


def test_a_controller_is_no_broker(ours):
    address = ours.controllers
    said = load("--bootstrap-server", address, "--rate", 5, "--duration", 1)
    assert said.exit_code == 3
    assert (
        f"--bootstrap-server: {address}: this is no broker: it does not offer Metadata; a "
        "controller's port does not either\n"
    ) in said.output


def test_a_port_that_never_answers_ends_soon_and_is_asked_about(monkeypatch):
    monkeypatch.setattr(kafka_client, "BROKER_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = load("--bootstrap-server", address, "--rate", 5, "--duration", 1)
    assert said.exit_code == 3
    assert f"{address}: no answer within 2 s; is it the address of a broker?" in said.output


@pytest.mark.slow
def test_a_silent_address_before_a_broker_does_not_keep_the_load_from_it(ours, monkeypatch):
    monkeypatch.setattr(session, "_REACH_S", 1.0)
    monkeypatch.setattr(connection.Connection.open.__func__, "__defaults__", (1.5,))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        both = f"127.0.0.1:{silent.getsockname()[1]},{ours.bootstrap}"
        said = load("--bootstrap-server", both, "--rate", 5, "--duration", 0.5, "--prefix", "two")
    assert said.exit_code == 0, said.output
