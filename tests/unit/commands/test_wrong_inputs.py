"""Whatever a user can do wrong is a sentence and an exit code, soon, and never a traceback."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from emulator.cli import app
from emulator.commands import boundary
from emulator.commands.exits import ExitCode
from tests.unit.commands.running import CLUSTER, PROPERTIES

SOON_S: Final = 300.0
WRONG, FOUND, UNREACHABLE = ExitCode.WRONG, ExitCode.FOUND, ExitCode.UNREACHABLE
CLOSED = "127.0.0.1:1"
NOWHERE = "no-such-host.invalid:2181"
LONG = "n" * 300

WHOLE: Final = typer.main.get_command(app)
"""As ``app`` is called, but made once."""

Place = Callable[[Path], str]
"""Makes what is wrong in a folder; returns its path."""


def missing(folder: Path) -> str:
    return str(folder / "missing")


def a_folder(folder: Path) -> str:
    (folder / "folder").mkdir()
    return str(folder / "folder")


def holding(data: bytes) -> Place:
    def made(folder: Path) -> str:
        (folder / "file").write_bytes(data)
        return str(folder / "file")

    return made


def loop(folder: Path) -> str:
    (folder / "loop").symlink_to(folder / "loop")
    return str(folder / "loop")


def below_a_file(folder: Path) -> str:
    (folder / "file").write_text("x")
    return str(folder / "file" / "below")


def folder_with(**files: bytes) -> Place:
    def made(folder: Path) -> str:
        for name, data in files.items():
            (folder / name.replace("_", ".")).write_bytes(data)
        return str(folder)

    return made


def call(*arguments: str) -> tuple[int, str, str]:
    """As the shell would: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = boundary.run(lambda: WHOLE([*arguments], prog_name="kraft-bridge"))
    return code, out.getvalue(), err.getvalue()


FILES: Final[dict[str, tuple[Place, str]]] = {
    "missing": (missing, "No such file or directory"),
    "folder": (a_folder, "Is a directory"),
    "loop": (loop, "Too many levels of symbolic links"),
    "below a file": (below_a_file, "Not a directory"),
    "binary": (holding(b"\xff\xfe\x00"), "NUL"),
    "bad escape": (holding(b"a=\\uZZZZ"), "\\uZZZZ"),
}
"""What is named where a properties file is expected, and what is said."""
READERS: Final[dict[str, tuple[str, ...]]] = {
    "controller": ("controller", "-c"),
    "broker": ("broker", "-c"),
    "format": ("format", "-t", CLUSTER, "-c"),
    "zk dump": ("zk", "dump", "-c"),
    "zk diff": ("zk", "diff", "--log-dir", "x", "-c"),
    "zk reconcile": ("zk", "reconcile", "--yes", "--log-dir", "x", "-c"),
    "elect-leaders": ("elect-leaders", "--bootstrap-server", CLOSED, "--admin.config"),
    "conformance": ("conformance", "--bootstrap-server", CLOSED, "--command-config"),
    "preflight": ("preflight", "-c"),
    "rollback": ("rollback", "-c"),
}


def judge(arguments: tuple[str, ...], code: int, said: str) -> None:
    began = time.monotonic()
    found, out, err = call(*arguments)
    assert time.monotonic() - began < SOON_S
    assert "Traceback" not in out + err
    assert "[Errno" not in out + err
    assert said in err, (out, err)
    assert found == code, err
    assert out == "", "standard output is for data"


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("kind", FILES)
def test_a_properties_file_that_cannot_be_read(verb: str, kind: str, tmp_path: Path) -> None:
    make, said = FILES[kind]
    judge((*READERS[verb], make(tmp_path)), WRONG, said)


VALUES: Final = {
    "node.id": ("x", "-1", "99999999999", "1.5", "", "\u0663"),
    "process.roles": ("", "broker", "controller,broker", "king"),
    "controller.quorum.voters": ("", "3000", "3000@h", "3000@h:99999", "x@h:1", "1@h:1", "3000@:1"),
    "listeners": ("", "CONTROLLER", "CONTROLLER://:x", "A://h:1,A://h:1", "CONTROLLER://h:-1"),
    "controller.listener.names": ("", "OTHER"),
    "listener.security.protocol.map": ("CONTROLLER", "CONTROLLER:NONSENSE"),
    "zookeeper.connect": ("", "h:x", "h:99999", ",", "/chroot"),
    "zookeeper.metadata.migration.enable": ("yes", "1"),
    "zookeeper.session.timeout.ms": ("0", "x"),
    "zookeeper.ssl.client.enable": ("true",),
    "zookeeper.set.acl": ("true",),
    "kraftbridge.metrics.port": ("65536", "-2", "http"),
    "kraftbridge.metrics.hosts": ("a:9404", "http://a", "*", "a,b c"),
    "kraftbridge.release": ("2.8", "4.0", "3.9.2"),
    "kraftbridge.zk.write.behind.poison": ("ask",),
    "kraftbridge.zk.write.behind.hard.max.records": ("1",),
    "kraftbridge.faults.enable": ("true\nkraftbridge.metrics.port=-1",),
    "kraftbridge.no.such": ("1",),
    "kraftbridge.zookeeper.digest": ("x",),
    "kraftbridge.zookeeper.jaas.config": ("/no/such", "Client {", "/dev/zero"),
    "max.connections.per.ip": ("0", "x"),
    "max.connections.per.ip.overrides": ("host:1", "1.2.3.4"),
    "password.encoder.iterations": ("1",),
    "password.encoder.cipher.algorithm": ("ROT13",),
    "authorizer.class.name": ("com.me.Mine",),
    "metadata.log.segment.bytes": ("1",),
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, vs in VALUES.items() for v in vs])
def test_a_wrong_value_of_a_controllers_property(key: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    migrating = "zookeeper.connect=127.0.0.1:1\nzookeeper.metadata.migration.enable=true\n"
    file.write_text(f"{PROPERTIES}{migrating}log.dirs={tmp_path}/data\n{key}={value}\n")
    judge(("controller", "-c", str(file)), WRONG, key)


FOLDERS: Final[dict[str, tuple[Place, str]]] = {
    "missing": (missing, "missing"),
    "a file": (holding(b"x"), "file"),
    "empty": (a_folder, "not a formatted controller's folder"),
    "no text": (folder_with(meta_properties=b"\xff\xff"), "meta.properties"),
    "no node": (folder_with(meta_properties=b"version=1\n"), "meta.properties"),
    "old": (folder_with(meta_properties=b"version=0\nbroker.id=1\n"), "meta.properties"),
    "below a file": (below_a_file, "below"),
    "loop": (loop, "loop"),
}


@pytest.mark.parametrize(
    "verb",
    [
        "log dump",
        "zk diff --zookeeper 127.0.0.1:1",
        "zk reconcile --yes --zookeeper 127.0.0.1:1",
    ],
)
@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_that_is_no_controllers(verb: str, kind: str, tmp_path: Path) -> None:
    make, said = FOLDERS[kind]
    judge((*verb.split(), "--log-dir", make(tmp_path)), WRONG, said)


DUMPS: Final[dict[str, tuple[Place, str]]] = {
    "missing": (missing, "No such file or directory"),
    "folder": (a_folder, "Is a directory"),
    "loop": (loop, "Too many levels"),
    "empty": (holding(b""), "not a dump"),
    "no JSON": (holding(b"{"), "not a dump"),
    "no UTF-8": (holding(b'{"nodes":{"/a":{"text":"\xff"}}}'), "not a dump"),
    "a list": (holding(b"[]"), "not a dump"),
    "no nodes": (holding(b"{}"), "not a dump"),
    "no path": (holding(b'{"nodes":{"a":{"text":""}}}'), "no path of a znode"),
    "an empty name": (holding(b'{"nodes":{"/a//b":{"text":""}}}'), "no path of a znode"),
    "no data": (holding(b'{"nodes":{"/a":{}}}'), "neither text nor b64 nor null"),
    "no base64": (holding(b'{"nodes":{"/a":{"b64":"!"}}}'), "/a"),
    "a number": (holding(b'{"nodes":{"/a":{"text":1}}}'), "not a dump"),
    "deep": (holding(b"[" * 100_000), "not a dump"),
}


@pytest.mark.parametrize("kind", DUMPS)
def test_a_dump_that_is_none(kind: str, tmp_path: Path) -> None:
    make, said = DUMPS[kind]
    judge(("plan", "--dump", make(tmp_path)), WRONG, said)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (b'{"b64":"!"}', "b64 is no base64: "),
        (b'{"text":"","version":"a"}', "version 'a' is no number"),
        (b'{"version":1}', "neither text nor b64 nor null"),
    ],
)
def test_a_znode_of_a_dump_that_cannot_be_read_is_named(
    node: bytes, said: str, tmp_path: Path
) -> None:
    file = holding(b'{"nodes":{"/b":{"text":""},"/a":' + node + b"}}")(tmp_path)
    told = f"{file}: /a is not as zk dump writes it: {said}"
    judge(("preflight", "--dump", file), WRONG, told)


ADDRESSED: Final = (
    "preflight --zookeeper {}",
    "rollback --zookeeper {}",
    "zk dump --zookeeper {}",
    "elect-leaders --bootstrap-server {}",
    "elect-leaders --zookeeper {}",
    "load --bootstrap-server {} --rate 1",
    "fleet --brokers 1 --controller {}",
    "bench run create-storm --quick --zookeeper {}",
)
ASKED: Final = ("status --url {}", "finalise --url {}")
DUMPED: Final = (
    "plan --dump {}",
    "preflight --dump {}",
    "wire check {}",
    "elect-leaders --bootstrap-server h:1 --path-to-json-file {}",
    "controller -c {}",
    "zk dump -c {}",
)
NO_FILES: Final = {
    "/no/such": "No such file",
    "/dev": "Is a directory",
    "/dev/zero": "/dev/zero",
}


@pytest.mark.parametrize("line", [*ADDRESSED, *(one.replace("{}", "http://{}") for one in ASKED)])
@pytest.mark.parametrize(("address", "said"), [(CLOSED, "refused"), (NOWHERE, "no-such-host")])
def test_an_address_that_nobody_answers_at(line: str, address: str, said: str) -> None:
    judge(tuple(line.format(address).split()), UNREACHABLE, said)


@pytest.mark.parametrize("line", ADDRESSED)
@pytest.mark.parametrize(
    ("address", "said"),
    [("a:b", "host:port"), ("h:99999", "a port is 0 to 65535"), (",", "kraft-bridge: ")],
)
def test_an_address_that_is_none(line: str, address: str, said: str) -> None:
    judge(tuple(line.format(address).split()), WRONG, said)


@pytest.mark.parametrize("line", ASKED)
@pytest.mark.parametrize("port", ["127.0.0.1:x", "127.0.0.1:99999", "[::1", ""])
@pytest.mark.parametrize("scheme", ["http://", "file://", ""])
def test_a_url_that_is_none(line: str, scheme: str, port: str) -> None:
    judge((*line.split()[:2], scheme + port), WRONG, "is not an http address")


@pytest.mark.parametrize("line", DUMPED)
@pytest.mark.parametrize("path", NO_FILES)
def test_a_file_that_is_none(line: str, path: str) -> None:
    judge(tuple(line.format(path).split()), WRONG, NO_FILES[path])


OPTIONS: Final[list[tuple[str, int, str]]] = [
    ("controller -c /dev/null", WRONG, "node.id is required"),
    ("controller -c /dev/null -X =x", WRONG, "not key=value"),
    ("broker -c /dev/null", WRONG, "node.id is required"),
    ("format -c /dev/null -t x", WRONG, "node.id is required"),
    ("status --url http://[::1]:1", UNREACHABLE, "[::1]:1/status"),
    ("preflight", WRONG, "needs --zookeeper, --dump, or a -c file"),
    ("preflight --dump /dev/null --target-release 5", WRONG, "--target-release 5"),
    ("rollback", WRONG, "needs --zookeeper, or a -c file"),
    ("finalise --yes", WRONG, "--yes needs --log-dir"),
    (f"finalise --url http://{CLOSED} --yes --log-dir /no", UNREACHABLE, "Connection refused"),
    ("zk reconcile --log-dir x", WRONG, "say --yes, or --dry-run"),
    ("zk dump", WRONG, "give --zookeeper host:port"),
    (f"zk dump --zookeeper {CLOSED},{NOWHERE}", UNREACHABLE, "does not resolve"),
    ("zk dump --zookeeper a..b:1", UNREACHABLE, "no name of a host"),
    ("zk dump -X zookeeper.connect=h:x", WRONG, "is not host:port"),
    ("zk start --data /dev/null", FOUND, "/dev/null"),
    ("zk start --data /proc/x", FOUND, "/proc/x"),
    ("elect-leaders --bootstrap-server h:1 --topic t", WRONG, "must be given together"),
    ("elect-leaders --bootstrap-server h:1 --election-type UNCLEAN", WRONG, "may lose records"),
    ("elect-leaders --bootstrap-server h:1 --topic a/b --partition 0", WRONG, "name is invalid"),
    ("elect-leaders --bootstrap-server h:1 --topic t --partition -1", WRONG, "partition -1"),
    ("elect-leaders --bootstrap-server h:1 --topic t --partition 2147483648", WRONG, "2147483648"),
    ("elect-leaders --bootstrap-server h:1 --timeout 0", WRONG, "'--timeout'"),
    ("load --bootstrap-server h:1 --rate 0", WRONG, "'--rate'"),
    ("load --bootstrap-server h:1 --rate 1 --duration -1", WRONG, "'--duration'"),
    ("load --bootstrap-server h:1 --rate 1 --tasks 2", WRONG, "--tasks needs --spark-master"),
    ("load --bootstrap-server h:1 --rate 1 --spark-master moon", WRONG, "--spark-master 'moon'"),
    ("fleet --brokers 1", WRONG, "--controller"),
    ("fleet --brokers 0 --controller h:1", WRONG, "0: at least 1"),
    ("fleet --brokers 1 --controller h:1 --wave noon", WRONG, "--wave"),
    (f"fleet --brokers 1 --controller {CLOSED} --zookeeper {CLOSED}", UNREACHABLE, "refused"),
    ("simulate --count 0", WRONG, "'--count'"),
    ("bench run", WRONG, "which scenarios?"),
    ("bench run /dev/null", WRONG, "/dev/null"),
    ("bench run knee --targets moon", WRONG, "'moon'"),
    ("bench run knee --repeat 0", WRONG, "'--repeat'"),
    ("bench compare /dev/null /dev/null", WRONG, "/dev/null"),
    ("bench compare /no/such /no/such", WRONG, "/no/such"),
    ("analyze x --out y --master moon", WRONG, "--master 'moon'"),
    ("analyze x --out y --remote moon", WRONG, "--remote 'moon'"),
    ("analyze x y --out z --follow", WRONG, "--follow"),
    ("trace compact /dev/null", WRONG, "/dev/null is no trace"),
    ("demo --seconds 1", WRONG, "1: at least 30 (Length of the load; its kills"),
    ("demo --out /dev/null", FOUND, "/dev/null"),
    ("demo --out \udcff", WRONG, "not a name in UTF-8"),
    ("zk start --data \udcff", WRONG, "not a name in UTF-8"),
    ("analyze x --out \udcff", WRONG, "not a name in UTF-8"),
    (f"simulate --count 1 --record {LONG}", WRONG, "File name too long"),
    (f"bench compare {LONG} x", WRONG, "File name too long"),
    (f"rollback --zookeeper {CLOSED} --log-dir {LONG}", WRONG, "File name too long"),
    ("wire show Nonsense", WRONG, "Nonsense"),
    ("wire show FetchRequest --version 99", WRONG, "99"),
    ("wire show FetchRequest --hex zz", WRONG, "hex"),
    ("wire show FetchRequest --hex 00", FOUND, "FetchRequest"),
    ("wire show --follow /dev/zero", WRONG, "it is a device"),
    ("wire check BINARY", WRONG, "kraft-bridge: BINARY: no text in UTF-8, so not a recording"),
    ("wire record --listen h:1 --to h:1 --out x", WRONG, "for ever"),
    (f"wire record --listen {LONG}:1 --to h:1 --out x", WRONG, "no name of a host"),
    ("wire record --listen h:1 --to a..b:1 --out x", WRONG, "no name of a host"),
    ("wire record --listen \udcff:1 --to h:1 --out x", WRONG, "no name of a host"),
    ("wire record --listen 127.0.0.1:0 --to h:1 --out /dev/null", WRONG, "/dev/null"),
]
"""What a verb itself looks at; what its parser refuses is in the test below."""


@pytest.mark.parametrize(("line", "code", "said"), OPTIONS, ids=[one for one, _, _ in OPTIONS])
def test_a_line_that_is_mistyped(
    line: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "BINARY").write_bytes(b"\xff\xfe")
    judge(tuple(line.split()), code, said)


ENDLESS: Final = {"--lag-p99-ms", "--every", "--until-idle", "--hours"}
"""Times without a greatest one."""


def programs(command: Any = WHOLE, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each verb and each group of them, with its words."""
    yield " ".join(words), command
    for name, one in getattr(command, "commands", {}).items():
        yield from programs(one, (*words, name))


def mistakes(command: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """What its parser refuses, and what is said of it."""
    yield ("--nonsense",), "No such option: --nonsense"
    if hasattr(command, "commands"):
        yield ("nonsense",), "No such command 'nonsense'"
        yield (), "Usage: kraft-bridge"
        return
    options = [one for one in command.params if one.opts[0].startswith("-")]
    if any(one.required for one in command.params):
        yield (), "Missing "
    elif options == command.params:
        yield ("surplus",), "unexpected extra argument"
    for one in (each for each in options if not each.is_flag):
        name, kind = one.opts[0], one.type_descriptor.annotation
        yield (name,), "requires an argument"
        wrong = ["x"] if kind in {int, float} else []
        wrong += [str(bound - 1) for bound in [one.min] if bound is not None]
        wrong += [str(bound + 1) for bound in [one.max] if bound is not None]
        wrong += ["nan"] if kind is float and name != "--until-idle" else []
        wrong += ["inf"] if kind is float and name not in ENDLESS else []
        yield from (((name, value), f"'{name}'") for value in wrong)


PROGRAMS: Final = list(programs())


@pytest.mark.parametrize(("words", "command"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_whatever_a_parser_refuses(words: str, command: Any) -> None:
    """Every option of every verb: unknown, without its value, no number, or out of its bounds."""
    for mistake, said in mistakes(command):
        judge((*words.split(), *mistake), WRONG, said)
