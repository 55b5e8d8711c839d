"""What every verb answers to a line as people type it: kinds of values, names, words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from emulator import cli
from emulator.commands import parser
from emulator.commands.preflight import sarif
from emulator.io import printable
from emulator.operations.preflight.engine import Finding, Severity
from tests.unit.commands.running import CLUSTER, run
from wire.errors import DecodeError
from wire.frame import FrameReader

WHOLE = typer.main.get_command(cli.app)


def leaves(command: Any = WHOLE, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from leaves(one, (*words, name))
    else:
        yield " ".join(words), command


def options(kind: str) -> list[tuple[str, Any]]:
    """Verbs with their options whose value has this name."""
    return [
        (verb, param)
        for verb, command in leaves()
        for param in command.params
        if (param.metavar or "").startswith(kind) and param.param_type_name == "option"
    ]


def named(pairs: list[tuple[str, Any]]) -> list[str]:
    return [f"{verb} {param.opts[0]}" for verb, param in pairs]


DURATIONS = options(parser.DURATION)
ADDRESSES = options("HOST:PORT")
FILES = options("FILE")


@pytest.mark.parametrize(("verb", "option"), DURATIONS, ids=named(DURATIONS))
def test_seconds_are_also_minutes_and_hours(verb: str, option: Any) -> None:
    def seconds(text: str) -> Any:
        if not option.multiple:
            return option.process_value(None, text)
        (found,) = option.process_value(None, (text,))
        return found

    assert seconds("10m") == seconds("600s") == seconds("600") == 600
    with pytest.raises(typer.BadParameter, match="is no duration: write 90, 90s, 10m or 2h"):
        seconds("10 fortnights")
    if option.max is None or option.max > 7_200:
        assert seconds("2h") == 7_200


def test_what_is_said_to_be_seconds_is_a_duration() -> None:
    for verb, command in leaves():
        for param in command.params:
            kind = param.type_descriptor.annotation
            if float in {kind, *get_args(kind)} and "econds" in str(param.help):
                assert param.metavar == parser.DURATION, (verb, param.opts)


@pytest.mark.parametrize(("verb", "option"), ADDRESSES, ids=named(ADDRESSES))
@pytest.mark.parametrize("scheme", ["http://", "https://", "PLAINTEXT://"])
def test_an_address_that_is_a_url(verb: str, option: Any, scheme: str) -> None:
    code, _, complaint = run(*verb.split(), option.opts[0], f"{scheme}b1:9092")
    assert (code, f"write HOST:PORT without {scheme}" in complaint) == (2, True)


@pytest.mark.parametrize(("verb", "option"), FILES, ids=named(FILES))
def test_several_files_behind_one_option(verb: str, option: Any) -> None:
    code, _, complaint = run(*verb.split(), option.opts[0], "/no/a,/no/b")
    said = re.sub(r"\s+", " ", complaint)
    assert (code, "no such file; several are" in said) == (2, True)


@pytest.mark.parametrize(
    "group", ["", *sorted({one.split()[0] for one in cli.VERBS if " " in one})]
)
def test_help_is_a_word(group: str) -> None:
    assert run(*group.split(), "help") == run(*group.split(), "--help")
    assert run("help", *group.split()) == run(*group.split(), "--help")


def test_version_is_a_word() -> None:
    assert run("version") == run("--version")


@pytest.mark.parametrize("word", [*parser.EXPECTED, "kafka-storage.sh", "Migrate"])
def test_a_name_that_one_expects_leads_to_the_verb(word: str) -> None:
    verbs = {name for name, _ in leaves()}
    verb = parser.EXPECTED[word.lower().removesuffix(".sh")]
    assert verb in verbs
    assert word not in WHOLE.commands, "it would never be looked up"
    code, _, complaint = run(word)
    assert (code, f"It is: kraft-bridge {verb}\n" in complaint) == (2, True)


@pytest.mark.parametrize("width", ["50", "80", "200"])
def test_no_help_is_cut_off_or_shows_types_of_python(
    width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", width)
    monkeypatch.setenv("COLUMNS", width)
    for words in ([], ["zk"], ["wire"], ["bench"], ["log"], *(x.split() for x, _ in leaves())):
        out = " ".join(run(*words, "--help")[1].split())
        assert not re.search(r"\w\.\.\. |<(list|float|int|str|path)\b|<=x", out), words
    out = "".join(run("--help")[1].split())
    for name, command in WHOLE.commands.items():
        assert parser.first_sentence(command).replace(" ", "") in out, name


def test_every_verb_has_a_purpose() -> None:
    listed = [name for some in parser.PURPOSES.values() for name in some]
    assert sorted(listed) == sorted(WHOLE.commands)
    out = run("--help")[1]
    assert re.findall(r"^(\w[\w ]*):$", out, re.MULTILINE)[1:] == [*parser.PURPOSES]


@pytest.mark.parametrize("verb", ["rollback", "finalise"])
def test_a_plan_may_be_asked_for_where_it_is_the_default(verb: str, tmp_path: Path) -> None:
    code, _, complaint = run(verb, "--dry-run", "--yes")
    assert (code, "--dry-run and --yes exclude each other" in complaint) == (2, True)
    # Another test may have a controller at the address that is asked by default.
    nobody = ("--url", "http://127.0.0.1:1") if verb == "finalise" else ()
    assert run(verb, "--dry-run", *nobody) == run(verb, *nobody)


@pytest.mark.parametrize("line", ["log dump --log-dir /no", "zk dump --zookeeper 127.0.0.1:1"])
def test_json_may_be_asked_for_where_it_is_all_there_is(line: str) -> None:
    assert run(*line.split(), "--json") == run(*line.split())


@pytest.mark.parametrize("verb", ["controller", "broker"])
def test_a_file_may_be_named_without_its_option(verb: str, tmp_path: Path) -> None:
    assert run(verb, tmp_path / "no") == run(verb, "-c", tmp_path / "no")
    for line, said in (((), "a properties file is missing"), (("a", "-c", "b"), "two properties")):
        code, _, complaint = run(verb, *line)
        assert (code, said in complaint) == (2, True)


def test_keys_that_stand_twice_comments_and_folders_taken_literally(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = "".join(
        line for line in properties.read_text().splitlines(keepends=True) if "log.dirs" not in line
    )
    lines = good.count("\n")
    for folder, mark in (("~/x", "~"), ("${HOME}/x", "$"), ('"/x"', '"')):
        properties.write_text(f"{good}num.partitions=3 # few\nlog.dirs={folder}\nnode.id=7\n")
        code, _, complaint = run("controller", "-c", properties)
        assert code == 2
        where = good[: good.index("node.id")].count("\n") + 1
        assert f"node.id stands twice (lines {where} and {lines + 3}): the last" in complaint
        assert "num.partitions=3 # few: " in complaint
        assert "; a comment needs a line of its own" in complaint
        literal = f"log.dirs: {folder} is {tmp_path / folder}: {mark} is taken literally"
        assert literal in complaint
    properties.write_text(f"{good}log.dirs=here/x\n")
    assert f"log.dirs: here/x is {tmp_path / 'here/x'}\n" in run("controller", properties)[2]


def test_a_file_of_another_user_is_said_to_be_his(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = PermissionError(13, "Permission denied", str(tmp_path / "no" / ".lock"))
    assert printable.sentence(error).endswith("Permission denied")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 4_321)
    said = printable.sentence(error)
    assert said.endswith(f"; you are user {mine + 4_321}")
    assert f"Permission denied: {tmp_path} is owned by " in said


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server"),
        (b"SSH-2.0-OpenSSH\r\n", "an SSH server"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "a TLS server"),
    ],
)
def test_who_speaks_another_protocol_is_named(begin: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=f"{said} answers there, not Kafka"):
        FrameReader().feed(begin)


def test_a_message_that_is_misspelt() -> None:
    for typed, meant in (("FetchReqest", "FetchRequest"), ("TopicRecrod", "TopicRecord")):
        code, _, complaint = run("wire", "show", typed)
        assert code == 2
        assert f"no message {typed}; did you mean {meant}" in complaint


def test_findings_of_one_kind_are_one_block() -> None:
    def found(where: str, fact: str, code: str = "W02") -> Finding:
        return Finding(code, Severity.WARNING, where, fact, "means", "do", "see")

    of_partitions = [found(f"/brokers/topics/t/partitions/{n}", "no leader") for n in range(9)]
    of_brokers = [found(f"b{n}.properties: log.dirs", f"broker {n} has none") for n in range(2)]
    others = [found("/x", "no leader", "W03"), found("/x", "another fact")]
    blocks = sarif.kinds([*of_partitions, *of_brokers, *others])
    assert blocks == [of_partitions, of_brokers, others[:1], others[1:]]


def test_what_files_have_alike_is_said_once_with_their_names() -> None:
    def found(node: str, fact: str) -> Finding:
        return Finding("W20", Severity.WARNING, f"{node}: log.dir", fact, "means", "do", "see")

    alike = [found(f"b{n}", "3 folders") for n in range(12)]
    console = Console(record=True, width=300)
    sarif.show_findings(alike, console)
    first, fact, *_ = console.export_text().splitlines()
    assert first.endswith("12 nodes: b0, b1, b2, b3, b4, b5, b6, b7, b8, b9 and 2 more")
    assert fact.strip() == "log.dir: 3 folders"
    console = Console(record=True, width=300)
    sarif.show_findings([*alike[:2], found("c", "4 folders")], console)
    text = console.export_text()
    assert "log.dir: 3 folders; in b0, b1" in text
    assert "log.dir: 4 folders; in c" in text


def test_files_that_a_shell_writes_behind_an_option_are_that_options(tmp_path: Path) -> None:
    """In the middle of a roll some present files are those of KRaft brokers, as all targets are."""
    paths = {}
    for name in ("a", "b", "c", "d"):
        paths[name] = tmp_path / name
        paths[name].write_text("process.roles=broker\nnode.id=1\n")
    dump = tmp_path / "tree.json"
    dump.write_text(json.dumps({"nodes": {}}))
    given = ("-c", paths["a"], paths["b"], "--target", paths["c"], paths["d"], "--dump", dump)
    told = json.loads(run("preflight", *given, "--json")[1])["next"][-1]["command"]
    wanted = f"-c {paths['a']} -c {paths['b']} --target {paths['c']} --target {paths['d']}"
    assert wanted in told


IMPORTED = ("emulator.cli", "typer", "emulator.commands.every", "emulator.commands.status")


@pytest.mark.parametrize("module", IMPORTED)
def test_ctrl_c_while_a_program_is_imported_is_no_traceback(module: str) -> None:
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from emulator.io.program import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "status"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_program_alone_and_the_words_of_a_verb_are_read_alike() -> None:
    for words in (["help", "status"], ["version"]):
        alone = CliRunner().invoke(cli.app_of(words[0]), words)
        assert (alone.exit_code, alone.stdout) == run(*words)[:2]


CHROOTS = "127.0.0.1:1/kafka,127.0.0.1:1/kafka"


@pytest.mark.parametrize("verb", ["preflight", "rollback", "zk dump", "zk diff --log-dir /no"])
def test_a_chroot_after_each_server_is_refused(verb: str) -> None:
    code, _, complaint = run(*verb.split(), "--zookeeper", CHROOTS)
    assert (code, "the chroot is written once, after the last server" in complaint) == (2, True)


@pytest.mark.parametrize("verb", ["preflight", "zk dump"])
def test_an_address_that_cannot_be_reached_is_named_once(verb: str) -> None:
    code, _, complaint = run(*verb.split(), "--zookeeper", "127.0.0.1:1")
    assert (code, complaint.count("127.0.0.1:1")) == (3, 1)


def test_a_wrong_dump_is_refused_alike_by_both_verbs(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text("{ no json")
    told = [
        run(verb, "--dump", file)[2].partition(f"{file}: ")[2] for verb in ("plan", "preflight")
    ]
    assert told[0].startswith("not a dump of a ZooKeeper tree: ")
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("controller --log-level loud", "'--log-level': 'loud' is not one of 'trace'"),
        ("version more", "version takes no argument, and more is given"),
        ("controller", "a properties file is missing: -c FILE"),
        ("broker a -c b", "two properties files are given, a and -c b: a node has one"),
        ("zk dump --zookeeper h:99999", "'h:99999': a port is 0 to 65535"),
        ("elect-leaders --bootstrap-server h:065536", "'h:065536': a port is 0 to 65535"),
        (f"zk dump --zookeeper h:{'9' * 5_000}", ": a port is 0 to 65535"),
    ],
)
def test_a_wrong_line_is_answered_with_what_is_wrong(line: str, said: str) -> None:
    code, _, complaint = run(*line.split())
    assert (code, said in complaint, "Value error" in complaint) == (2, True, False), complaint


def test_help_of_version_is_the_version() -> None:
    assert run("help", "version") == run("version") == run("--version")


def test_what_was_given_on_the_command_line_is_not_said_to_be_in_the_file(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given, said in (
        ("node.id=x", "-X: node.id=x"),
        ("nonsense", "kraft-bridge: -X: 'nonsense' is not key=value"),
        ("log.dirs=here", "-X: warning: log.dirs: here is "),
        ("kraftbridge.zookeeper.jaas.config=/no", "-X: kraftbridge.zookeeper.jaas.config: /no: "),
    ):
        code, _, complaint = run("controller", properties, "-X", given)
        assert code in {1, 2}
        assert said in complaint, complaint
    with properties.open("a") as file:
        file.write("node.id=1\n")
    _, _, complaint = run("controller", properties, "-X", "node.id=x")
    assert "stands twice" not in complaint, "neither counts"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nonsense", "-X: 'nonsense' is not key=value"),
        ("zookeeper.set.acl=maybe", "-X: zookeeper.set.acl=maybe: "),
        ("password.encoder.key.length=1", "-X: password.encoder.key.length=1: "),
    ],
)
def test_no_verb_says_that_a_wrong_override_is_in_the_file(
    properties: Path, given: str, said: str
) -> None:
    """``zk dump`` reads no passwords."""
    with properties.open("a") as file:
        file.write("zookeeper.connect=127.0.0.1:1\n")
    where = ("--log-dir", properties.parent / "no", "--dry-run")
    lines: list[tuple[object, ...]] = [("zk", "reconcile", *where)]
    lines += [("zk", "dump")] if "password" not in given else []
    for line in lines:
        code, _, complaint = run(*line, "-c", properties, "-X", given)
        assert (code, f"kraft-bridge: {said}" in complaint) == (2, True), complaint


def test_warnings_among_errors_are_marked(properties: Path) -> None:
    with properties.open("a") as file:
        file.write("num.partitons=3\nprocess.roles=controler\n")
    code, _, complaint = run("controller", properties)
    assert code == 2
    marked = [line.removeprefix(f"{properties}: ") for line in complaint.splitlines()]
    (warned,) = [one for one in marked if "num.partitons" in one]
    (wrong,) = [one for one in marked if "controler" in one]
    assert (warned.startswith("warning: "), wrong.startswith("warning: ")) == (True, False)


def test_a_dump_whose_nodes_are_no_object_is_not_said_to_have_none(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    for text, said in (('{"nodes": []}', "nodes is no object"), ("{}", "nodes is missing")):
        file.write_text(text)
        code, _, complaint = run("preflight", "--dump", file)
        assert (code, said in complaint) == (2, True), complaint


def test_a_log_without_records_is_said_to_have_none(properties: Path, tmp_path: Path) -> None:
    assert run("format", "-c", properties, "-t", CLUSTER)[0] == 0
    said = f"{tmp_path / 'data'}: the log has no record yet\n"
    assert run("log", "dump", "--log-dir", tmp_path / "data") == (0, "", said)


@pytest.mark.parametrize("verb", ["controller", "broker", "zk start"])
def test_the_help_of_a_server_says_what_ctrl_c_does(verb: str) -> None:
    _, out, _ = run(*verb.split(), "--help")
    last = " ".join(out.partition("  130 ")[2].split())
    assert last == "interrupted by Ctrl-C before it runs; later Ctrl-C ends it in order, as SIGTERM"


@pytest.mark.parametrize("verb", ["demo", "zk start"])
def test_the_help_names_the_releases_of_java(verb: str) -> None:
    assert "Java 17 to 22" in " ".join(run(*verb.split(), "--help")[1].split())


@pytest.mark.parametrize("verb", ["controller", "broker"])
def test_the_help_of_a_file_stands_alone(verb: str) -> None:
    assert "FILE  A Kafka server.properties, as with -c." in run(verb, "--help")[1]


@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null/x", "/sys/x/y"])
def test_a_folder_that_cannot_be_made_is_said_to_be_one(properties: Path, folder: str) -> None:
    code, _, complaint = run("format", "-c", properties, "-t", CLUSTER, "-X", f"log.dirs={folder}")
    assert (code, complaint.count("this folder cannot be made: ")) == (1, 1), complaint
    assert complaint.splitlines()[-1].startswith(f"kraft-bridge: {folder.rpartition('/y')[0]}")
