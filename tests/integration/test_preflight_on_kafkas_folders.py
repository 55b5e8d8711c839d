"""What preflight reads in the folders that Kafka's own tools and controllers write."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.commands.preflight.inputs import read_folder
from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import Survey
from emulator.servers.kafka import KafkaBroker, KraftController
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.kit.sasl_properties import USERS, sasl
from tests.unit.operations.preflight.clean import CLUSTER, tree

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def blockers(folder: ControllerFolder) -> list[str]:
    """What B15 finds in a folder, beside a tree and no files."""
    report = run(Survey(tree(), folders=(folder,)))
    found = (one for one in report.findings if one.severity is Severity.BLOCKER)
    return [one.fact for one in found if one.code == "B15"]


@pytest.mark.parametrize(("release", "level"), [("3.4.1", 8), ("3.9.2", 21)])
def test_a_folder_that_kafka_storage_formatted(release: str, level: int, tmp_path: Path) -> None:
    controller = KraftController(release, tmp_path, None, CLUSTER)
    controller.format()
    folder = read_folder(controller.data)
    assert folder.meta["cluster.id"] == CLUSTER
    assert (folder.bootstrap_level, folder.level, folder.dynamic) == (level, None, False)
    assert (folder.problem, folder.end_offset) == ("", 0)
    assert not blockers(folder)


def test_a_folder_formatted_for_a_dynamic_quorum(tmp_path: Path) -> None:
    servers = {"controller.quorum.bootstrap.servers": "localhost:9093"}
    controller = KraftController("3.9.2", tmp_path, None, CLUSTER, properties=servers)
    path = controller._write_properties()
    text = "".join(
        line for line in path.read_text().splitlines(keepends=True) if ".voters" not in line
    )
    path.write_text(text)
    arguments = ("format", "--standalone", "-t", CLUSTER, "-c", path)
    subprocess.run(
        controller._java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True
    )
    folder = read_folder(controller.data)
    assert folder.dynamic
    assert (folder.metadata_level, folder.problem) == (21, "")
    assert not blockers(folder)


def test_a_controller_started_without_the_flag(tmp_path: Path) -> None:
    with KraftController("3.9.2", tmp_path, None, CLUSTER) as controller:
        controller.wait_started()
        # Its port is open before it leads and writes the first records.
        wait_for("its level in the log", lambda: read_folder(controller.data).level is not None)
        running = read_folder(controller.data)
    stopped = read_folder(controller.data)
    for folder in (running, stopped):
        assert (folder.level, folder.state, folder.problem) == (21, MigrationState.NONE, "")
        assert folder.election_epoch == 1
        assert folder.voters == {folder.node_id}
        (fact,) = blockers(folder)
        assert "began without zookeeper.metadata.migration.enable" in fact


def by_scram() -> dict[str, object]:
    """The controllers' listener takes SCRAM, and a controller logs in to it so."""
    own = dict(sasl("CONTROLLER", mechanisms="SCRAM-SHA-512"))
    del own["sasl.mechanism.inter.broker.protocol"]
    protocols = "CONTROLLER:SASL_PLAINTEXT,INTERNAL:PLAINTEXT"
    own |= {"sasl.mechanism.controller.protocol": "SCRAM-SHA-512"}
    return own | {"listener.security.protocol.map": protocols}


@pytest.mark.parametrize("known", [False, True])
def test_only_a_user_in_its_log_logs_in_to_kafkas_controller_by_scram(
    tmp_path: Path, known: bool
) -> None:
    """The controller itself, which registers with the one that leads: it is the same node."""
    controller = KraftController("3.9.2", tmp_path, None, CLUSTER, properties=by_scram())
    arguments = ("format", f"--cluster-id={CLUSTER}", "-c", controller._write_properties())
    user = f"SCRAM-SHA-512=[name=node,password={USERS['node']}]"
    added = ("--add-scram", user) if known else ()
    subprocess.run(
        controller._java("kafka.tools.StorageTool", *arguments, *added),
        check=True,
        capture_output=True,
    )
    file = Properties("c", {key: str(value) for key, value in controller.properties().items()})
    formatted = read_folder(controller.data)
    assert formatted.users == ({("node", 2)} if known else set())
    told = [
        one.code
        for one in run(Survey(tree(), (file,), folders=(formatted,))).findings
        if one.code == "B22"
    ]
    with controller:
        if known:
            controller.wait_line("Our registration has been persisted to the metadata log")
            assert read_folder(controller.data).users == {("node", 2)}
        else:
            controller.wait_line("failed authentication due to: Authentication failed")
    assert told == ([] if known else ["B22"])


def preflight(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    ran = CliRunner().invoke(app, ["preflight", "--json", "--strict", *map(str, arguments)])
    return ran.exit_code, json.loads(ran.stdout)


def test_a_migration_of_kafkas_own_from_before_to_dual_write(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    hosts = f"{zookeeper.hosts}/preflight"
    controller = KraftController("3.9.2", tmp_path / "controller", hosts, "")
    broker = KafkaBroker("3.9.2", 0, tmp_path / "broker", hosts, broker_count=1)
    with broker:
        present = broker._write_properties()
        code, found = preflight("--zookeeper", hosts, "-c", present)
        assert (code, found["stage"]["name"]) == (3, "not migrating"), found
        read = CliRunner().invoke(app, ["zk", "dump", "--zookeeper", hosts]).stdout
        broker.stop()  # a killed one leaves its znode for a while
    controller.cluster_id = json.loads(json.loads(read)["nodes"]["/cluster/id"]["text"])["id"]
    broker.migrate(controller.port)
    with controller, broker:
        files = ["-c", broker._write_properties(), "-c", controller._write_properties()]

        def stage(*more: str | Path) -> tuple[int, str]:
            code, found = preflight("--zookeeper", hosts, *files, *more)
            return code, found["stage"]["name"]

        own = ("--controller-dir", controller.data)
        wait_for("dual write", lambda: stage(*own) == (0, "dual write"))
        assert stage() == (1, "dual write")
        copy = KraftController("3.9.2", tmp_path / "again", hosts, controller.cluster_id)
        copy.format()
        code, found = preflight("--zookeeper", hosts, *files, "--controller-dir", copy.data)
        (fact,) = (one["fact"] for one in found["findings"] if one["code"] == "PF-B02")
        assert code == 1
        assert "ends before it, and has never migrated" in fact
