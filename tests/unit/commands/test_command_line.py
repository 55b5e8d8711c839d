"""What all verbs share: exit codes, examples, the version, the end of a closed or full output."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest

from emulator import cli
from emulator.commands import boundary
from emulator.commands.elect_leaders import command as elect
from emulator.commands.exits import EXAMPLES, MEANINGS, ExitCode, codes_of, meaning_of
from emulator.config.listeners import HostPort
from emulator.io import reach
from emulator.raft import layout
from tests.unit.commands.running import CLUSTER, run
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

LEAVES = sorted({*cli.VERBS, "wire show", "wire check"} - {"wire"})
GROUPS = ["", "bench", "zk", "log", "wire"]
PROGRAM = [sys.executable, "-c", "from emulator.cli import main; main()"]


@pytest.mark.parametrize("verb", [*GROUPS, *LEAVES])
def test_every_help_has_the_exit_codes_of_its_verb(verb: str) -> None:
    code, out, _ = run(*verb.split(), "--help")
    assert code == 0
    table = out.partition("Exit codes:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in table] == [
        [str(int(one)), meaning_of(verb, one)] for one in codes_of(verb)
    ]
    assert run(*verb.split(), "-h") == (code, out, "")
    told = re.findall(r"[Ee]xit(?: code)? (\d)", out.partition("Exit codes:")[0])
    assert {*told} <= {"1", "4"}, "only what a finding means for this verb"


@pytest.mark.parametrize("verb", LEAVES)
def test_every_verb_has_examples_with_options_that_it_has(verb: str) -> None:
    _, out, _ = run(*verb.split(), "--help")
    assert EXAMPLES[verb]
    options, _, examples = out.partition("Example")
    for line in EXAMPLES[verb]:
        assert f"  kraft-bridge {line}\n" in examples
        words = shlex.split(line.partition(" >")[0])
        assert words[: len(verb.split())] == verb.split()
        for word in words:
            if word.startswith("-"):
                assert re.search(rf"(^|[\s,]){re.escape(word)}[\s,]", options), word
    assert {*EXAMPLES} == {*LEAVES}


def test_a_code_that_only_some_verbs_have_is_in_their_help_alone() -> None:
    assert [one for one in LEAVES if ExitCode.WARNED in codes_of(one)] == ["preflight"]
    assert [one for one in LEAVES if ExitCode.NOT_YET in codes_of(one)] == ["finalise", "status"]
    assert ExitCode.UNREACHABLE not in codes_of("plan")
    assert ExitCode.UNREACHABLE in codes_of("zk diff")
    assert codes_of("") == codes_of("zk") == [*MEANINGS]


def test_the_page_has_the_same_table() -> None:
    page = (Path(__file__).parents[3] / "docs/command-line.md").read_text()
    rows = [f"| {int(one)} | {text} |" for one, text in MEANINGS.items()]
    assert "\n".join(("| code | meaning |", "|---|---|", *rows)) in page


def test_the_version_is_that_of_the_package() -> None:
    code, out, _ = run("--version")
    assert (code, out.split()[:2]) == (0, ["kraft-bridge", metadata.version("kraft-bridge")])
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert f"commit {head.stdout.strip() or 'not known'}" in out


def test_the_page_for_contributors_says_where_its_commands_are() -> None:
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    first = re.search(r"`(\.venv/bin/)?(kraft-bridge|pytest|python) ", page)
    assert first is not None
    assert "`. .venv/bin/activate` once in a shell" in page[: first.start()]


def test_a_usage_errors_code_never_means_a_finding() -> None:
    assert ExitCode.WRONG == 2, "what the parser of options ends with"
    assert len({*ExitCode}) == len(MEANINGS)


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 3)])
def test_an_unclean_election_everywhere_asks_first(
    answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

    def confirm(question: str, *, err: bool) -> bool:
        asked.append(question)
        assert err
        return answer == "y\n"

    monkeypatch.setattr(elect.sys, "stdin", Terminal())
    monkeypatch.setattr(elect.typer, "confirm", confirm)
    line = ("--bootstrap-server", "127.0.0.1:1", "--election-type", "UNCLEAN")
    with pytest.raises(elect.typer.Exit) as ended:
        elect.elect_leaders(bootstrap_server=line[1], election_type=line[3])
    assert ended.value.exit_code == code
    assert "may lose records" in asked[0]
    with pytest.raises(elect.typer.Exit):
        elect.elect_leaders(
            bootstrap_server=line[1], election_type=line[3], all_topic_partitions=True
        )
    assert len(asked) == 1


def test_one_of_several_servers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = HostPort("127.0.0.1", server.getsockname()[1])
        assert reach.why_unreachable([HostPort("127.0.0.1", 1), there]) == ""
    why = reach.why_unreachable(
        [HostPort("127.0.0.1", 1), HostPort("x\0y", 1), HostPort("a" * 70, 1)]
    )
    assert why.count(";") == 2
    assert why.startswith("127.0.0.1:1: Connection refused; ")


def test_who_never_answers_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(reach, "_try", lambda *_: release.wait(10))
    assert reach.why_unreachable([HostPort("h", 1)], 0.1) == "h:1: no answer within 0.1 s"
    release.set()


def long_log(properties: Path, folder: Path) -> Path:
    """A folder with so many records that their dump fills a pipe."""
    run("format", "-c", properties, "-t", CLUSTER)
    records = [(None, encode_record(r.NoOpRecord(), 0))] * 5_000
    log = folder / layout.segment_path(0)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(encode_batch(Batch(0, 1, 0, 1_000, records)))
    return folder


@pytest.mark.parametrize("output", ["/dev/full", "closed pipe"])
def test_an_output_that_takes_nothing_is_no_traceback(
    output: str, properties: Path, tmp_path: Path
) -> None:
    folder = long_log(properties, tmp_path / "data")
    if output == "/dev/full":
        to = os.open(output, os.O_WRONLY)
    else:
        closed, to = os.pipe()
        os.close(closed)
    try:
        lines = (["log", "dump", "--log-dir", str(folder)], ["--help"], ["--version"])
        for line in lines:
            ended = subprocess.run(
                [*PROGRAM, *line],
                check=False,
                stdout=to,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert ended.returncode == 1, ended.stderr
            if output == "/dev/full":
                assert re.fullmatch(r"kraft-bridge: .*No space left on device\n", ended.stderr)
            else:
                assert ended.stderr == ""
        both = subprocess.run([*PROGRAM, "status", "--url", "x"], check=False, stdout=to, stderr=to)
        assert both.returncode in {1, 2}
    finally:
        os.close(to)


def test_a_name_that_is_no_text_and_ctrl_c() -> None:
    command = [*map(os.fsencode, PROGRAM), b"controller", b"-c", b"\xff\xfe"]
    ended = subprocess.run(command, check=False, capture_output=True)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr
    assert b"No such file" in ended.stderr
    # Who runs the tests in the background may have had SIGINT ignored, which processes inherit.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from emulator import cli; "
    program += "cli._asked = lambda: signal.raise_signal(signal.SIGINT); cli.main()"
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert (ended.returncode, ended.stderr) == (130, b"")


def test_what_is_still_in_the_buffer_at_the_end_counts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert boundary.run(lambda: full.write("x")) == ExitCode.FOUND
        monkeypatch.undo()
    assert capsys.readouterr().err == ("kraft-bridge: standard output: No space left on device\n")


def test_a_missing_package_is_named_with_its_extra(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> None:
        raise ModuleNotFoundError("no", name="pyspark.sql")

    assert boundary.run(program) == ExitCode.FOUND
    assert "pip install 'kraft-bridge[spark]'" in capsys.readouterr().err
    with pytest.raises(ModuleNotFoundError):
        boundary.run(lambda: __import__("no_such_module_of_ours"))
