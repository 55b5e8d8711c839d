"""What of preflight's blockers a rehearsal finds without preflight: a table, and each row tried."""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import javaproperties
import pytest
import typer

from bench.rehearsal.own import OwnFound
from bench.rehearsal.plan import Around, BrokerMode, properties
from bench.verbs import own_nodes
from bench.verbs.own_files import Here
from bench.verbs.own_nodes import StartedFiles
from bench.verbs.rehearsed_inputs import Given, Prepared, prepared
from emulator.config.broker import load_broker
from emulator.config.load import ConfigError
from emulator.operations.preflight.engine import RULES, Severity
from emulator.operations.preflight.survey import DumpedZnode, Survey, of_dump
from tests.unit.operations.preflight.changes import Change
from tests.unit.operations.preflight.clean import CLEAN, clean
from tests.unit.operations.preflight.every_change import EVERY_CHANGE
from tests.unit.operations.preflight.harmless import HARMLESS
from tests.unit.operations.preflight.test_table import FILES, Cluster

PAGE = Path(__file__).parents[3] / "docs" / "rehearse.md"
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "data" / "rehearsed.toml").read_text()
)
AROUND = Around("127.0.0.1:2181", "3000@127.0.0.1:1,3001@127.0.0.1:2", "CONTROLLER", 1)
BLOCKERS = [one for one in EVERY_CHANGE if one.code[0] == "B" and one.severity is Severity.BLOCKER]
PLAYED = frozenset({"wait", "secrets", "nodes", "dual write"})
"""Where servers are needed, or secrets."""


def read(survey: Survey) -> OwnFound:
    """What nodes of ours say when they only read their own files."""
    here = Here("127.0.0.1:1", Path("/own"), iter(range(20_000, 60_000)), Path("k"), Path("t"))
    return StartedFiles(
        survey, "x", lambda _id: "3.9", [], lambda name, text: f"{name}: {text}"
    ).read(own_nodes.files_of(survey, here))


def dumped(nodes: Mapping[str, DumpedZnode]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, one in nodes.items():
        data = one.data
        shown = {"null": True} if data is None else {"b64": base64.b64encode(data).decode()}
        found[path] = {"acl": [list(rule) for rule in one.acl], **shown}
        if one.ephemeral:
            found[path]["ephemeral"] = True
    return {"count": len(found), "nodes": found}


def given(survey: Survey, folder: Path, **more: Any) -> Given:
    """A survey as an operator would give it: a dump, and files."""
    kinds: dict[str, list[Path]] = {"now": [], "target": []}
    for kind, some in (("now", survey.properties), ("target", survey.targets)):
        for number, one in enumerate(some):
            file = folder / f"{kind}-{number}"
            file.write_text(javaproperties.dumps(dict(one.values), timestamp=False))
            kinds[kind].append(file)
    tree = folder / "tree.json"
    document = dumped(survey.nodes)
    tree.write_text(json.dumps(document))
    return Given(str(tree), document, kinds["now"], kinds["target"], **more)


def start(found: Prepared) -> bool:
    """Whether a broker of the rehearsal does not start."""
    for one in found.plan.brokers:
        ports = range(11, 11 + len(one.listeners))
        for mode in BrokerMode:
            try:
                load_broker(properties(one, ports, mode, AROUND), "h")
            except ConfigError:
                return True
    return False


def found_by(survey: Survey, folder: Path, **more: Any) -> set[str]:
    """Where a rehearsal finds something, of what needs no server."""
    try:
        found = prepared(given(survey, folder, **more))
    except typer.Exit:
        return {"before"}
    nodes = {one.path: DumpedZnode(one.data) for one in found.nodes}
    where = {"copy"} if of_dump(dumped(nodes), []).copy.refusals else set[str]()
    where |= {"files"} if read(survey).refused else set()
    return where | ({"start"} if start(found) else set())


def test_every_code_has_a_row_and_what_is_not_found_has_a_reason() -> None:
    assert TABLE.keys() == {code for code in RULES if code[0] == "B"}
    for code, row in TABLE.items():
        assert bool(row.get("why")) is (row.get("some", False) or not row["by"]), code
    run = [code for code, row in TABLE.items() if {*row["by"]} - {"before"}]
    before = [code for code, row in TABLE.items() if row["by"] == ["before"]]
    assert (len(run), len(before)) == (22, 3), "as the page says"


@pytest.mark.parametrize("code", TABLE)
def test_each_bad_change_is_found_where_the_table_says(code: str, tmp_path: Path) -> None:
    row = TABLE[code]
    seen: dict[str, set[str]] = {}
    for number, change in enumerate(one for one in BLOCKERS if one.code == code):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen[change.name] = found_by(change.apply(clean("plain")), folder)
    found = set().union(*seen.values()) - {"start"}  # of a wrong file it is the same
    if not row["by"]:
        assert not found, seen
        return
    assert found >= {*row["by"]} - PLAYED, seen
    if not row.get("some") and not PLAYED & {*row["by"]}:
        assert all(seen.values()), seen


@pytest.mark.parametrize("name", CLEAN)
def test_of_a_clean_cluster_nothing_is_found(name: str, tmp_path: Path) -> None:
    assert not found_by(clean(name), tmp_path)


@pytest.mark.parametrize("change", HARMLESS)
def test_of_what_spoils_nothing_no_file_is_refused(change: str) -> None:
    for name in CLEAN:
        assert read(HARMLESS[change](clean(name))).refused == [], name


@pytest.mark.parametrize("base", FILES)
def test_no_file_of_an_installer_is_refused(base: str, tmp_path: Path) -> None:
    cluster = Cluster(base, tmp_path)
    files = [replace(clean("plain").properties[0], values=one) for one in cluster.files.values()]
    assert read(replace(clean("plain"), properties=files, targets=[])).refused == []


def test_a_password_that_nobody_can_decode_is_found_with_secrets(tmp_path: Path) -> None:
    (change,) = [one for one in BLOCKERS if one.code == "B08"]
    assert found_by(change.apply(clean("plain")), tmp_path, keep_secrets=True) == {"copy"}


def test_controllers_below_another_chroot_are_played_there(tmp_path: Path) -> None:
    def elsewhere(change: Change, folder: str) -> bool:
        (tmp_path / folder).mkdir()
        return prepared(given(change.apply(clean("plain")), tmp_path / folder)).elsewhere

    (change,) = [one for one in BLOCKERS if one.name == "controllers with another chroot"]
    assert elsewhere(change, "spoilt")
    (other,) = [one for one in BLOCKERS if one.name == "replica on a lost broker"]
    assert not elsewhere(other, "clean")


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| PF-B")]
    shown = {code.strip(): by for _, code, by, *_ in (line.split("|") for line in rows)}
    assert shown.keys() == {f"PF-{code}" for code in TABLE}
    for code, row in TABLE.items():
        by = shown[f"PF-{code}"]
        assert [*by.strip().removesuffix(", in part").split(", ")] == (row["by"] or ["no"]), code
        assert ("in part" in by) is row.get("some", False), code
        assert not row.get("why") or row["why"] in text, code
