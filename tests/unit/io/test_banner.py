"""The first line of a controller says what runs, as an operator would compare it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from emulator.config.load import Config, load
from emulator.io import banner
from tests.unit.commands.running import PROPERTIES


def settings(**more: str) -> Config:
    lines = (PROPERTIES + "log.dirs=data\n").strip().splitlines()
    raw = dict(line.split("=", 1) for line in lines)
    return load(raw | {key.replace("_", "."): value for key, value in more.items()})[0]


def test_it_names_what_an_operator_compares() -> None:
    of = settings(
        zookeeper_connect="zk1,zk2:2182/kafka",
        zookeeper_metadata_migration_enable="true",
        kraftbridge_metrics_port="9404",
        kraftbridge_trace_dir="/trace",
    )
    line = banner.of_controller(of, "abc", Path("server.properties"))
    here = Path.cwd()
    assert line.level == "info"
    assert line.fields.pop("version")
    assert line.fields == {
        "file": f"{here}/server.properties",
        "folders": f"{here}/data,/trace",
        "cluster_id": "abc",
        "listeners": "CONTROLLER://127.0.0.1:19093",
        "voters": "3000@127.0.0.1:19093",
        "zookeeper": "zk1:2181,zk2:2182/kafka",
        "status": "http://127.0.0.1:9404/status",
    }


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("::1", 9404, "http://[::1]:9404/status"),
        ("", 9404, "http://127.0.0.1:9404/status"),
        ("::", 9404, "http://[::1]:9404/status"),
        ("h", 0, "at a free port, which a line below names"),
        ("h", None, "http://127.0.0.1:9404/status, or the free port that a line below names"),
        ("h", -1, "none: kraftbridge.metrics.port is -1"),
    ],
)
def test_where_status_is(host: str, port: int | None, said: str) -> None:
    of = settings()
    (one,) = of.listeners
    of = dataclasses.replace(
        of, listeners=(dataclasses.replace(one, host=host),), metrics_port=port
    )
    fields = banner.of_controller(of, "abc", None).fields
    assert (fields["status"], fields["file"]) == (said, "")
    assert fields["zookeeper"] == "none, as the migration is off"


def test_a_file_whose_name_has_a_blank_can_be_typed() -> None:
    said = banner.format_command(settings(), Path("my file"))
    assert said == "run kraft-bridge format -c 'my file' -t CLUSTER_ID first"
    several = settings(controller_quorum_voters="3000@127.0.0.1:19093,3001@h:1")
    assert "(--new-quorum as well if none of its" in banner.format_command(several, None)
