"""``rehearse board``: the live pages and every panel, asked of a Prometheus that a test plays."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.compose import board, plan, steps
from bench.compose.node import ALONE
from bench.compose.plan import CONTROLLERS

ROOT = Path(__file__).resolve().parents[3]


class Web:
    """Answers as the controllers and Prometheus; ``empty``: expressions that find nothing."""

    def __init__(self):
        self.page = "<html></html>"
        self.empty = ()
        self.asked = []

    def answer(self, path):
        if not path.startswith("/api/"):
            return self.page
        (query,) = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)["query"]
        self.asked.append(query)
        found = [] if any(one in query for one in self.empty) else [{"metric": {"phase": "final"}}]
        return json.dumps({"data": {"result": found}})


@pytest.fixture
def web(monkeypatch):
    found = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(found.answer(self.path).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        here = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(plan, "url", lambda *_: here)
        monkeypatch.setattr(plan, "prometheus_url", lambda *_: here)
        monkeypatch.setenv(board.FOLDER, str(ROOT / "packaging"))
        monkeypatch.setattr(board, "_VALUES_S", 0.0)
        yield found
        server.shutdown()


def test_every_expression_of_the_board_is_asked_without_a_variable_of_grafana(web, capsys):
    assert steps.run("board") == 0
    shown = json.loads((ROOT / "packaging/kraft-bridge.grafana.json").read_text())["panels"]
    assert len({*web.asked}) == len({one["expr"] for each in shown for one in each["targets"]})
    assert [one for one in web.asked if "$" in one] == []
    said = capsys.readouterr().out
    assert said.count("live page of controller") == len(CONTROLLERS)
    assert "phase on the board: final" in said


def test_what_only_shows_trouble_may_be_empty_and_is_named(web, capsys):
    web.empty = ("ALERTS", "refused_brokers", "reasons_to_wait", "deriv(")
    assert steps.run("board") == 0
    said = capsys.readouterr().out
    assert "What needs me now?" in said
    assert "How long until changes wait" in said


def test_a_panel_that_stays_empty_fails_the_step_by_its_question(web, capsys):
    web.empty = ("log_sync_ms",)
    assert steps.run("board") == 1
    assert "['How long does the disk take for a sync?']" in capsys.readouterr().err


def test_a_controller_without_its_page_fails_the_step(web, capsys):
    web.page = '{"type": "about:blank"}'
    assert steps.run("board") == 1
    assert "controller 3000 shows no page" in capsys.readouterr().err


def test_a_prometheus_that_does_not_answer_is_named(monkeypatch, capsys, web):
    monkeypatch.setattr(plan, "prometheus_url", lambda *_: "http://127.0.0.1:1")
    assert steps.run("board") == 1
    assert "http://127.0.0.1:1/api/v1/query" in capsys.readouterr().err
    assert web.asked == []


def test_prometheus_looks_at_every_controller_and_has_the_rules(tmp_path, monkeypatch):
    monkeypatch.setenv("KRAFT_BRIDGE_STATE", str(tmp_path))
    program, *given = ALONE[plan.PROMETHEUS]()
    assert program == "prometheus"
    (file,) = (one.partition("=")[2] for one in given if one.startswith("--config.file="))
    written = json.loads(Path(file).read_text())
    (job,) = written["scrape_configs"]
    (targets,) = job["static_configs"]
    assert targets["targets"] == [
        f"controller-{each}:{port + 311}" for each, port in CONTROLLERS.items()
    ]
    assert [Path(one).name for one in written["rule_files"]] == ["kraft-bridge.rules.yml"]
    assert (ROOT / "packaging/kraft-bridge.rules.yml").exists()
    assert f"--web.listen-address=prometheus:{plan.PROMETHEUS_PORT}" in given
