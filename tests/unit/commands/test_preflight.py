"""``preflight``: exit codes, JSON, and one sentence when nothing can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from emulator.commands import configuration
from emulator.commands.exits import ExitCode
from emulator.commands.preflight.inputs import PreflightError, read_properties
from emulator.operations.preflight.report import PreflightReport
from tests import data
from tests.unit.commands.running import run


def test_preflight_of_a_dump_says_what_it_found_by_exit_code(tmp_path: Path) -> None:
    folder = "3.9.2-rollback-and-stale-migration-znode"
    before = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    code, out, _ = run("preflight", "--dump", before)
    assert (code, out.partition(":")[0]) == (ExitCode.UNREACHABLE, "INCOMPLETE"), (
        "of no node a file"
    )
    assert "PF-W03 warning  /brokers/topics/moving" in out
    assert "PF-B11: no server.properties given" in out
    assert run("preflight", "--dump", before, "--strict")[0] == ExitCode.UNREACHABLE
    rolled_back = data.extract(f"{folder}/tree-5-rolled-back.json", tmp_path)
    code, out, _ = run("preflight", "--dump", rolled_back, "--json")
    assert code == 1
    found = json.loads(out)
    assert found["counts"]["blocker"] == 1
    (blocker,) = (one for one in found["findings"] if one["severity"] == "blocker")
    assert (blocker["code"], blocker["znode"]) == ("PF-B02", "/migration")
    assert blocker["fact"]
    assert blocker["remedy"]
    assert {one["code"] for one in found["not_run"]} >= {"PF-B05", "PF-I02"}


def test_preflight_reads_properties_and_the_folder_they_name(
    tmp_path: Path, properties: Path
) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=another\n")
    code, out, _ = run("preflight", "--dump", dump, "-c", properties, "--json")
    assert code == 1
    codes = {one["code"] for one in json.loads(out)["findings"]}
    assert {"PF-B04", "PF-B12"} <= codes


@pytest.mark.parametrize(
    ("made", "code", "told"),
    [
        (lambda place: place.write_text(""), "PF-B18", "has no broker.id and no cluster.id"),
        (lambda place: place.write_text("version=0 \nbroker.id=1\n"), "PF-B18", "no cluster.id"),
        (lambda place: place.write_text("version=0\nbroker.id=1 \n"), "PF-B18", "'1 ' in"),
        (lambda place: place.write_text("version=2\n"), "PF-B18", "has version 2"),
        (lambda place: place.write_bytes(b"version=0\n\0"), "", "it holds NUL bytes"),
        (lambda place: place.mkdir(), "", "Is a directory"),
    ],
    ids=["empty", "a blank", "an id with a blank", "a later one", "binary", "a folder"],
)
def test_meta_properties_is_read_as_kafka_reads_it(
    tmp_path: Path, made: Callable[[Path], object], code: str, told: str
) -> None:
    """MetaProperties.Builder of 3.9.2 was asked: none is version 0, a blank is no part of an id."""
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    made(folder / "meta.properties")
    file = tmp_path / "b.properties"
    file.write_text(f"broker.id=1\nlog.dirs={folder}\n")
    found = json.loads(run("preflight", "--dump", dump, "-c", file, "--json")[1])
    facts = [one["fact"] for one in found["findings"] if one["code"] == "PF-B18"]
    assert bool(facts) == bool(code)
    unlooked = [one["why"] for one in found["not_run"] if one["code"] == "PF-B18"]
    assert not told or any(told in one for one in (*facts, *unlooked))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "needs --zookeeper, --dump"),
        (("--dump", "a", "--zookeeper", "h:1"), "exclude each other"),
        (("-c", "no-such.properties"), "no-such.properties"),
        (("--dump", "no-such-file"), "no-such-file"),
        (("--dump", __file__), "test_preflight.py"),
        (("--dump", "a", "--identity", "kafka"), "--identity kafka: not scheme:id"),
        (("--dump", "a", "--json", "--sarif"), "exclude each other"),
        (("--dump", "a", "--target-release", "3.9"), "one of 4.0, 4.1"),
        (("--dump", "a", "--target-release", "4.1.x"), "one of 4.0, 4.1"),
    ],
)
def test_preflight_that_is_asked_wrongly_exits_with_2(arguments: tuple[str, ...], why: str) -> None:
    code, out, err = run("preflight", *arguments)
    assert (code, out) == (2, "")
    assert why in err


def test_a_connect_string_that_is_none_exits_with_2(tmp_path: Path) -> None:
    """Nothing was asked, so nothing is unreachable; zk dump and zk diff say the same."""
    wrong = "127.0.0.1:99999/kafka"
    file = tmp_path / "b.properties"
    file.write_text(f"zookeeper.connect={wrong}\n")
    for arguments in (("--zookeeper", wrong), ("-c", file)):
        code, out, err = run("preflight", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith(f"kraft-bridge: preflight: {wrong} is not host:port[,…][/chroot]: ")
        assert len(err.splitlines()) == 1


def test_a_folder_given_as_a_file_is_named_without_an_error_number(tmp_path: Path) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    each = f"give --controller-dir once for each folder: --controller-dir {tmp_path}"
    each += " --controller-dir …"
    for option in ("-c", "--target"):
        code, _, err = run("preflight", "--dump", dump, option, tmp_path)
        assert (code, err) == (2, f"kraft-bridge: preflight: {tmp_path}: Is a directory; {each}\n")


def test_preflight_that_cannot_look_exits_with_3() -> None:
    code, out, err = run("preflight", "--zookeeper", "127.0.0.1:1")
    assert (code, out) == (3, "")
    assert "127.0.0.1:1: Connection refused" in err


def test_where_the_migration_stands_follows_the_verdict(tmp_path: Path) -> None:
    folder = "3.9.2-rollback-and-stale-migration-znode"
    stages = {
        "0-before": "not migrating: ",
        "1-dualwrite": "dual write: ",
        "5-rolled-back": "rolled back: ",
        "8-before-sync": "emptied: ",
    }
    for step, stage in stages.items():
        dump = data.extract(f"{folder}/tree-{step}.json", tmp_path)
        code, out, _ = run("preflight", "--dump", dump)
        verdict, step_now, *more = out.splitlines()
        standing = next(one for one in more if one.startswith("migration: "))
        assert step_now.startswith("next: ")
        assert verdict.startswith("INCOMPLETE: no blocker " if code == 3 else "BLOCKED: ")
        assert standing.startswith(f"migration: {stage}")
        assert code == (3 if step == "0-before" else 1)
        told = json.loads(run("preflight", "--dump", dump, "--json")[1])["stage"]
        assert f"{told['name']}: " == stage


def test_a_final_one_is_not_blocked_and_the_line_is_typed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said BLOCKED, and listed what a migration that is to begin lacks; and its code was 1."""
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    found = run("preflight", "--dump", dump, "--identity", "digest:kafka:secret", "--json")
    (step,) = json.loads(found[1])["next"]
    assert step["command"] == (
        f"kraft-bridge preflight --identity digest:kafka --dump {dump} -c FILES"
    )
    monkeypatch.setattr(PreflightReport, "final", True)
    monkeypatch.setattr(PreflightReport, "count", lambda *_of: 1)
    code, out, _ = run("preflight", "--dump", dump, "--strict")
    assert code == ExitCode.DONE
    assert out.startswith("FINAL: the migration is finalised; there is nothing to check\n")
    assert "PF-" not in out


def test_sarif_has_rules_results_and_their_places(tmp_path: Path) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    file = tmp_path / "a b.properties"
    file.write_text("process.roles=broker\nnode.id=0\n")
    code, out, _ = run("preflight", "--dump", dump, "--target", file, "--sarif")
    assert code == 1
    document = json.loads(out)
    assert document["version"] == "2.1.0"
    (ran,) = document["runs"]
    ids = [one["id"] for one in ran["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids))
    assert ran["properties"]["stage"] == "not migrating"
    for one in ran["results"]:
        assert ids[one["ruleIndex"]] == one["ruleId"]
        assert one["level"] in {"error", "warning", "note"}
        assert one["message"]["text"]
    place = next(one["locations"][0] for one in ran["results"] if one["ruleId"] == "PF-B17")
    uri = place["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.endswith("/a%20b.properties")
    znode = next(one["locations"][0] for one in ran["results"] if one["ruleId"] == "PF-W03")
    assert znode["logicalLocations"][0]["fullyQualifiedName"] == "/brokers/topics/moving"
    skipped = ran["invocations"][0]["toolExecutionNotifications"]
    assert "PF-B15" in {one["associatedRule"]["id"] for one in skipped}


def test_a_formatted_folder_of_another_level_is_a_blocker(tmp_path: Path, properties: Path) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    made = tmp_path / "made"
    override = ("-X", f"metadata.log.dir={made}", "-X", f"log.dirs={made}")
    cluster = "q" * 21 + "g"
    code, _, err = run(
        "format", "-c", properties, "-t", cluster, "--release-version", "3.6", *override
    )
    assert code == 0, err
    broker = tmp_path / "broker.properties"
    broker.write_text("broker.id=0\ninter.broker.protocol.version=3.9\n")
    arguments = ("preflight", "--dump", dump, "-c", broker, "--controller-dir", made, "--json")
    code, out, _ = run(*arguments)
    assert code == 1
    facts = [one["fact"] for one in json.loads(out)["findings"] if one["code"] == "PF-B15"]
    assert any(fact.startswith("metadata.version 14 (3.6-IV2)") for fact in facts)
    code, _, err = run("preflight", "--dump", dump, "--controller-dir", tmp_path / "none")
    assert code == 2
    assert "none: no such folder" in err


def test_a_latin_1_comment_does_not_make_a_file_unreadable(tmp_path: Path) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    file = tmp_path / "b.properties"
    file.write_bytes("# Größe\nbroker.id=0\nzookeeper.connect=zk:2181\n".encode("latin-1"))
    assert run("preflight", "--dump", dump, "-c", file)[0] == ExitCode.UNREACHABLE, "no controller"


def test_every_verb_reads_properties_as_kafka_does(tmp_path: Path) -> None:
    """java.util.Properties.load(InputStream): ISO 8859-1, whatever the file was written in."""
    file = tmp_path / "b.properties"
    text = "process.roles=controller\nbroker.id=0\na.password=Größe\nb=\\u00fc\n"
    read: dict[str, str] = {}

    def load(raw: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        read.update(raw)
        return "loaded", ()

    for codec, password in (("latin-1", "Größe"), ("utf-8", "Größe".encode().decode("latin-1"))):
        file.write_bytes(text.encode(codec))
        config, lines = configuration.read(file, (), load)
        assert (config, read["a.password"], read["b"]) == ("loaded", password, "ü")
        assert read_properties(file).values == read
        warned = [f"{file}: warning: a.password: written in UTF-8"] * (codec == "utf-8")
        assert [one.partition(",")[0] for one in lines] == warned, "the value is not shown"
    file.write_bytes(text.encode("utf-8-sig"))
    why = "line 1 begins with a byte order mark"
    assert why in configuration.read(file, (), load)[1][0]
    with pytest.raises(PreflightError, match=why):
        read_properties(file)
    for verb in (
        ("controller", "-c", file),
        ("zk", "dump", "-c", file),
        ("rollback", "-c", file),
        ("elect-leaders", "--bootstrap-server", "h:1", "--admin.config", file),
    ):
        code, _, err = run(*verb)
        assert (code, why in err) == (2, True), (verb, err)


def test_the_shells_stars_give_more_files(tmp_path: Path) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    texts = {
        "now-0": "broker.id=0\n",
        "now-1": "broker.id=1\n",
        "kraft-0": "node.id=0\nprocess.roles=broker\n",
        "kraft-1": "node.id=1\nprocess.roles=broker\n",
    }
    now0, now1, kraft0, kraft1 = (tmp_path / f"{name}.properties" for name in texts)
    for name, text in texts.items():
        (tmp_path / f"{name}.properties").write_text(text)

    def named(*arguments: str | Path) -> set[tuple[str, str]]:
        _, out, _ = run("preflight", "--dump", dump, "--json", *arguments)
        found = ((one["code"], one["znode"]) for one in json.loads(out)["findings"])
        return {(code, Path(where).name) for code, where in found if code in {"PF-B11", "PF-B17"}}

    want = named("-c", now0, "-c", now1, "--target", kraft0, "--target", kraft1)
    assert {where.partition(".")[0] for code, where in want if code == "PF-B17"} == {
        *("kraft-0", "kraft-1")
    }
    assert named("-c", now0, now1, "--target", kraft0, kraft1) == want
    only = {where.partition(".")[0] for _, where in named("--target", kraft0, kraft1)}
    assert only == {"kraft-0", "kraft-1"}
    code, _, err = run("preflight", "--dump", dump, now0)
    assert code == 2
    assert "-c is missing" in err


def test_no_name_in_a_tree_commands_the_terminal(tmp_path: Path) -> None:
    path = "/config/topics/\x1b[2Jx"
    tree = {"nodes": {path: {"null": True}, "/cluster/id": {"text": "{"}}, "time": 1}
    dump = tmp_path / "tree.json"
    dump.write_text(json.dumps(tree))
    file = tmp_path / "b.properties"
    file.write_text("broker.id=0\nauthorizer.class.name=\\ud800\n")
    for form in ((), ("--json",), ("--sarif",)):
        code, out, err = run("preflight", "--dump", dump, "-c", file, *form)
        assert code == 1, err
        assert "\x1b" not in out
