"""How servers of ``compose/migration.yaml`` run: properties by mode, and what a step asks for."""

import fcntl
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bench.compose import control, health, plan, spark, steps
from bench.compose.node import Node
from bench.compose.plan import ServerMode


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv(control.STATE, str(tmp_path / "state"))
    monkeypatch.setenv(control.TRACE, str(tmp_path / "trace"))


FLAG = "zookeeper.metadata.migration.enable"


@pytest.mark.parametrize(
    ("wanted", "has", "lacks"),
    [
        (
            ServerMode.ZOOKEEPER,
            {"broker.id", "zookeeper.connect"},
            {FLAG, "controller.quorum.voters"},
        ),
        (ServerMode.MIGRATING, {"broker.id", FLAG, "controller.quorum.voters"}, {"process.roles"}),
        (
            ServerMode.KRAFT,
            {"node.id", "process.roles", "controller.quorum.voters"},
            {"broker.id", FLAG, "zookeeper.connect", "inter.broker.protocol.version"},
        ),
    ],
)
def test_a_broker_has_the_properties_of_its_mode(wanted, has, lacks):
    found = plan.broker(2, wanted, "data")
    assert has <= found.keys()
    assert not lacks & found.keys()


def test_a_controller_loses_the_flag_and_zookeeper_at_the_end():
    gone = plan.controller(3000, ServerMode.MIGRATING, "data").keys()
    assert gone - plan.controller(3000, ServerMode.KRAFT, "data").keys() == {
        FLAG,
        "zookeeper.connect",
    }


def test_brokers_begin_in_zookeeper_mode_and_controllers_wait():
    assert control.wanted_mode("broker-1") is ServerMode.ZOOKEEPER
    assert control.wanted_mode("controller-3000") is ServerMode.STOPPED
    assert health.healthy("controller-3000"), "one that is to wait is healthy"


def test_what_is_asked_for_is_kept_and_is_not_what_runs():
    control.request_mode("broker-1", ServerMode.KRAFT)
    assert control.wanted_mode("broker-1") is ServerMode.KRAFT
    assert control.started_mode("broker-1") is ServerMode.STOPPED


def test_nothing_goes_back_after_the_end(capsys):
    control.request_mode("controller-3001", ServerMode.KRAFT)
    assert steps.run("back") == 1
    assert "no way back" in capsys.readouterr().err


def test_the_end_waits_for_every_broker(capsys):
    control.request_mode("broker-1", ServerMode.KRAFT)
    assert steps.run("finalise") == 1
    assert "[2, 3] are not in KRaft mode" in capsys.readouterr().err


def test_a_controller_that_should_run_and_does_not_answer_is_not_healthy(monkeypatch):
    control.request_mode("controller-3000", ServerMode.MIGRATING)
    monkeypatch.setattr(plan, "url", lambda _number: "http://127.0.0.1:1")
    assert not health.healthy("controller-3000")


def brokers_run(*modes):
    for number, mode in zip(plan.BROKERS, modes, strict=True):
        control.request_mode(plan.broker_name(number), mode)


@pytest.mark.parametrize(
    ("modes", "step", "why"),
    [
        ((ServerMode.ZOOKEEPER,) * 3, "roll", "[1, 2, 3] are in ZooKeeper mode: migrate first"),
        (
            (ServerMode.MIGRATING, ServerMode.ZOOKEEPER, ServerMode.ZOOKEEPER),
            "roll",
            "[2, 3] are in ZooKeeper mode: migrate first",
        ),
        (
            (ServerMode.KRAFT, ServerMode.MIGRATING, ServerMode.MIGRATING),
            "migrate",
            "[1] are in KRaft mode already: roll the others, or go back",
        ),
        ((ServerMode.ZOOKEEPER,) * 3, "back", "nothing to go back from"),
    ],
)
def test_a_step_out_of_order_restarts_nothing_and_says_which_comes_first(modes, step, why, capsys):
    brokers_run(*modes)
    assert steps.run(step) == 1
    assert why in capsys.readouterr().err
    assert [control.wanted_mode(plan.broker_name(each)) for each in plan.BROKERS] == list(modes)
    assert control.wanted_mode("controller-3000") is ServerMode.STOPPED


def test_a_step_waits_for_no_server_that_has_ended(capsys):
    control.write("broker-2.ended", "exit code 3")
    assert steps.run("ready") == 1
    said = capsys.readouterr().err
    assert "broker-2 has ended (exit code 3)" in said
    assert "logs broker-2" in said


def test_without_a_leader_the_mode_is_said_only_where_no_controller_should_run(capsys, monkeypatch):
    monkeypatch.setattr(plan, "url", lambda _number: "http://127.0.0.1:1")
    assert steps.run("status") == 0
    assert "the cluster is in ZooKeeper mode" in capsys.readouterr().out
    control.request_mode("controller-3002", ServerMode.KRAFT)
    assert steps.run("status") == 1
    assert "no controller leads: 'docker compose" in capsys.readouterr().err


def test_two_steps_that_restart_servers_do_not_run_at_once(capsys):
    control.write("step", "roll")
    with (control.volume() / "control" / "step").open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)  # a step wants it for itself
        assert steps.run("back") == 1
        assert "back: roll is under way: wait for its end" in capsys.readouterr().err
    assert steps.run("back") == 1
    assert "nothing to go back from" in capsys.readouterr().err


def test_a_step_that_is_interrupted_says_that_the_same_command_goes_on(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setitem(steps.STEPS, "roll", interrupted)
    assert steps.run("roll") == steps.INTERRUPTED
    assert capsys.readouterr().err == "roll: interrupted; the same command does what is left\n"


@pytest.mark.parametrize(
    ("command", "why"), [(["sh", "-c", "exit 3"], "exit code 3"), (["false"], "exit code 1")]
)
def test_a_server_that_ends_by_itself_ends_its_container_and_is_named(command, why, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(Node, "_zookeeper_answers", lambda _: True)
    monkeypatch.setattr(Node, "_command", lambda *_: command)
    assert Node("broker-1").run() == int(why[-1])
    assert control.ended("broker-1") == why
    assert control.started_mode("broker-1") is ServerMode.STOPPED


def test_workers_of_spark_are_counted_as_its_master_says():
    class Master(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"aliveworkers": 1, "workers": [{}, {}]}).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Master) as server:
        threading.Thread(target=server.handle_request).start()
        assert spark.ready_workers(f"http://127.0.0.1:{server.server_port}/json/") == 1
    assert spark.ready_workers(f"http://127.0.0.1:{server.server_port}/json/") == 0


def test_a_spark_without_its_workers_is_said_with_the_command_that_says_more(monkeypatch, capsys):
    monkeypatch.setattr(spark, "_READY_S", 0.0)
    monkeypatch.setattr(spark, "ready_workers", lambda: 1)
    assert steps.run("workers") == 1
    said = capsys.readouterr().err
    assert "workers: 1 of 2 workers of Spark after 0 s: 'docker compose -f compose/analysis" in said
