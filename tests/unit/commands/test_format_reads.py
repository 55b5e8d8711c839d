"""``format`` reads the cluster's id from ZooKeeper and the version from its brokers."""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.commands.format import asking, deciding
from emulator.commands.format import command as format_verb
from emulator.commands.format.asking import BROKER, ZooKeeperAnswer
from emulator.commands.format.deciding import IBP, ReadValues
from emulator.metadata.brokers import Endpoint
from emulator.raft.format import parse_meta_properties
from emulator.znodes import brokers, cluster, own
from emulator.zookeeper.ops import Create, SetData
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.unit.commands.running import CLUSTER, run
from tests.unit.commands.socketed_zookeeper import on_a_socket
from wire import messages as m
from wire.frame import decode_request, encode_response, framed

OTHER = "AAAAAAAAAAAAAAAAAAAAAA"
CLOSED = "127.0.0.1:1"


@dataclass
class Migrating:
    """A controller's file, with the migration on, and ZooKeeper's tree; nothing is formatted."""

    file: Path
    hosts: str
    tree: Any
    data: Path

    def format(self, *more: object) -> tuple[int, str, str]:
        return run("format", "-c", self.file, *more)

    def put(self, path: str, data: bytes | None) -> None:
        parts = path.strip("/").split("/")
        for end in range(1, len(parts)):
            parent = "/" + "/".join(parts[:end])
            if parent not in self.tree.nodes:
                self.tree.write(Create(parent, None), 1, 0)
        self.tree.write(Create(path, data), 1, 0)

    def registered(self, port: int, number: int = 1, listener: str = "PLAINTEXT") -> None:
        znode = brokers.encode([Endpoint(listener, "127.0.0.1", port, 0)], None, 1)
        self.put(f"{brokers.ROOT}/{number}", znode)

    @property
    def written(self) -> str:
        return parse_meta_properties((self.data / "meta.properties").read_bytes()).cluster_id


@pytest.fixture
def there(properties: Path, tmp_path: Path) -> Iterator[Migrating]:
    machine = ZooKeeperMachine()
    with on_a_socket(machine) as hosts, properties.open("a") as file:
        file.write(f"zookeeper.connect={hosts}\nzookeeper.metadata.migration.enable=true\n")
        file.flush()
        made = Migrating(properties, hosts, machine.model.tree, tmp_path / "data")
        made.put(cluster.PATH, cluster.encode(CLUSTER))
        yield made


@pytest.fixture
def nowhere(properties: Path, tmp_path: Path) -> Migrating:
    """ZooKeeper does not answer."""
    with properties.open("a") as file:
        file.write(f"zookeeper.connect={CLOSED}\nzookeeper.metadata.migration.enable=true\n")
    return Migrating(properties, CLOSED, None, tmp_path / "data")


Answer = Callable[[m.DescribeConfigsRequest], m.DescribeConfigsResponse]

BROKERS_MAP = (
    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
    "CONTROLLER:PLAINTEXT)"
)


def saying(version: str | None, code: int = 0) -> Answer:
    def answer(request: m.DescribeConfigsRequest) -> m.DescribeConfigsResponse:
        (asked,) = request.resources
        assert (asked.resource_type, [*(asked.configuration_keys or ())]) == (BROKER, [IBP])
        kind = m.DescribeConfigsResponse
        configs = [kind.DescribeConfigsResourceResult(name=IBP, value=version)]
        result = kind.DescribeConfigsResult(error_code=code, error_message=None, configs=configs)
        return kind(results=[result])

    return answer


@contextmanager
def broker(script: Answer) -> Iterator[int]:
    """A broker that answers ApiVersions and DescribeConfigs; yields its port."""

    def answer(request: Any) -> Any:
        if isinstance(request, m.ApiVersionsRequest):
            kind = m.ApiVersionsResponse
            ranges = ((18, 0, 3), (32, 0, 4))
            return kind(
                api_keys=[
                    kind.ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in ranges
                ]
            )
        return script(request)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                header, request = decode_request(self.rfile.read(int.from_bytes(size, "big")))
                version, number = header.api_version, header.correlation_id
                said = encode_response(header.api_key, version, number, answer(request))
                self.wfile.write(framed(said))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def cluster_of(there: Migrating, versions: Mapping[int, str]) -> Iterator[None]:
    with ExitStack() as stack:
        for number, version in versions.items():
            there.registered(stack.enter_context(broker(saying(version))), number)
        yield


def test_both_are_read_and_what_comes_next_is_said(there: Migrating) -> None:
    with cluster_of(there, {1: "3.6-IV2", 2: "3.6"}):
        code, out, err = there.format()
    assert (code, err) == (0, "")
    formatted, *rest = out.splitlines()
    assert f"Formatted {there.data} with metadata.version 3.6-IV2, directory" in formatted
    assert rest == [
        f"cluster id {CLUSTER}, read from /cluster/id of ZooKeeper at {there.hosts}",
        f"metadata.version 3.6-IV2, the {IBP} of brokers 1, 2",
        f"next: kraft-bridge controller -c {there.file}",
        "when it runs: restart each broker, one by one, with these lines beside its own:",
        "  zookeeper.metadata.migration.enable=true",
        "  controller.quorum.voters=3000@127.0.0.1:19093",
        "  controller.listener.names=CONTROLLER",
        "  listener.security.protocol.map=…,CONTROLLER:PLAINTEXT",
        f"(… is what the broker has there; if it has no such line: {BROKERS_MAP}",
    ]
    assert there.written == CLUSTER


def test_before_the_mark_of_a_rollback_is_deleted_no_controller_is_to_be_started(
    there: Migrating,
) -> None:
    there.put(own.PATH, own.encode(own.OwnZnode(3000, 1, 9, 0, 1, 1, writer=own.ROLLED_BACK)))
    with cluster_of(there, {1: "3.6"}):
        code, out, err = there.format()
    assert (code, err) == (0, "")
    clear = f"kraft-bridge rollback -c {there.file} ... --clear --yes"
    said = f"next: when all controllers are formatted: {clear}; start no controller before\n"
    assert said in out
    assert "kraft-bridge controller" not in out


def test_of_brokers_that_differ_the_lowest_is_taken_and_said(there: Migrating) -> None:
    with cluster_of(there, {1: "3.7-IV4", 2: "3.5-IV2"}):
        code, out, _ = there.format()
        assert (code, "with metadata.version 3.5-IV2" in out) == (0, True)
        assert (
            f"metadata.version 3.5-IV2, the lowest: {IBP} of broker 2 is 3.5-IV2, "
            f"{IBP} of broker 1 is 3.7-IV4; a broker with another one is refused" in out
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-t", OTHER), f"-t {OTHER}: /cluster/id of ZooKeeper at"),
        (("-r", "3.9"), f"-r 3.9: {IBP} of broker 1 is 3.6-IV2; --unchecked takes it all the same"),
    ],
)
def test_a_given_value_that_differs_is_refused_unless_unchecked(
    there: Migrating, given: tuple[str, str], said: str
) -> None:
    with cluster_of(there, {1: "3.6"}):
        code, out, err = there.format(*given)
        assert (code, out, said in err) == (2, "", True), err
        assert not there.data.exists()
        code, out, err = there.format(*given, "--unchecked")
        assert (code, err) == (0, "")
    if given[0] == "-t":
        assert there.written == OTHER
    else:
        assert "with metadata.version 3.9-IV0" in out


def test_given_values_that_are_right_are_compared_and_taken(there: Migrating) -> None:
    with cluster_of(there, {1: "3.6"}):
        code, out, err = there.format("-t", CLUSTER, "-r", "3.6-IV2")
    assert (code, err) == (0, "")
    assert f"the {IBP} of broker 1" in out


def test_what_is_missing_and_cannot_be_read_is_an_error(nowhere: Migrating) -> None:
    for given, option in (("-r", "3.9"), "-t"), (("-t", CLUSTER), "-r"):
        code, out, err = nowhere.format(*given)
        assert (code, out) == (3, "")
        assert f"{option} is missing, and no" in err
        assert f"ZooKeeper at {CLOSED}: Connection refused" in err
    assert not nowhere.data.exists()


def test_what_is_given_and_cannot_be_compared_is_taken_with_a_line(nowhere: Migrating) -> None:
    code, out, err = nowhere.format("-t", CLUSTER, "-r", "3.9")
    assert (code, "with metadata.version 3.9-IV0" in out) == (0, True)
    assert [line.partition(": ZooKeeper at ")[0] for line in err.splitlines()] == [
        f"not checked: -t {CLUSTER}",
        "not checked: -r 3.9",
    ]


def test_for_what_is_only_compared_a_silent_zookeeper_is_not_waited_for_long(
    nowhere: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []

    def silent(hosts: str, _security: object, patience_s: float) -> ZooKeeperAnswer:
        patience.append(patience_s)
        return ZooKeeperAnswer(hosts, why="silent")

    monkeypatch.setattr("emulator.commands.format.asking.zookeeper", silent)
    assert nowhere.format("-t", CLUSTER, "-r", "3.9")[0] == 0
    assert nowhere.format("-t", CLUSTER, "-g")[0] == 0
    assert nowhere.format("-X", f"log.dirs={nowhere.data}-2")[0] == 3
    assert patience == [format_verb.COMPARED_S] * 2 + [format_verb.NEEDED_S]
    assert (format_verb.COMPARED_S, format_verb.NEEDED_S) == (2, 10)


def test_a_zookeeper_that_accepts_and_says_nothing_is_given_up_in_time(
    nowhere: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_verb, "COMPARED_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        hosts = f"127.0.0.1:{server.getsockname()[1]}"
        code, _, err = nowhere.format(
            "-t", CLUSTER, "-r", "3.9", "-X", f"zookeeper.connect={hosts}"
        )
    said = f"not checked: -r 3.9: ZooKeeper at {hosts}: no answer within 0.3 s"
    assert (code, err.count(said)) == (0, 1), err


def test_without_the_migration_and_unchecked_nobody_is_asked(
    there: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("emulator.commands.format.asking.zookeeper")
    off = ("-X", "zookeeper.metadata.migration.enable=false", "-X", f"log.dirs={there.data}-2")
    code, out, err = there.format("-t", OTHER, *off)
    assert (code, "with metadata.version 3.9-IV0" in out, err) == (0, True, "")
    said = f"next: kraft-bridge controller -c {there.file}, with the same -X"
    assert out.splitlines()[-1] == said
    code, _, err = there.format("-t", OTHER, "-r", "3.8", "--unchecked")
    assert (code, err) == (0, "")


def test_without_the_migration_the_id_is_read_all_the_same(there: Migrating) -> None:
    code, out, err = there.format("-X", "zookeeper.metadata.migration.enable=false")
    assert (code, err, there.written) == (0, "", CLUSTER)
    assert "with metadata.version 3.9-IV0" in out


def test_without_a_zookeeper_an_id_must_be_given(properties: Path) -> None:
    code, _, err = run("format", "-c", properties)
    assert (code, f"{properties} has no zookeeper.connect; give -t" in err) == (2, True)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (saying("3.6", 31), "broker 2: CLUSTER_AUTHORIZATION_FAILED"),
        (saying(None), f"broker 2: it does not say its {IBP}"),
    ],
)
def test_a_broker_that_does_not_say_it_is_named_and_the_others_count(
    there: Migrating, script: Answer, why: str
) -> None:
    with broker(saying("3.6")) as one, broker(script) as two:
        there.registered(two, 2)
        code, out, err = there.format()
        assert (code, f"-r is missing, and no broker's {IBP} was read: {why}" in err) == (3, True)
        there.registered(one, 1)
        there.registered(1, 3)
        there.registered(one, 4, "OTHER")
        code, out, err = there.format()
    assert (code, "metadata.version 3.6-IV2, the" in out) == (0, True)
    named = "(inter.broker.listener.name)"
    assert err.splitlines() == [
        f"not checked: {why}",
        "not checked: broker 3: Connection refused",
        f"not checked: broker 4: it has no listener PLAINTEXT {named}, only OTHER",
    ]


@pytest.mark.parametrize("version", ["3.3-IV3", "2.8-IV1"])
def test_brokers_that_cannot_migrate_are_refused(there: Migrating, version: str) -> None:
    with cluster_of(there, {1: version}):
        code, _, err = there.format()
    assert (code, "a migration needs" in err, there.data.exists()) == (2, True, False)


@pytest.mark.filterwarnings("ignore:No chroot path exists")
def test_no_broker_and_no_id_are_said(there: Migrating) -> None:
    code, _, err = there.format()
    assert (code, "/brokers/ids: no broker is registered there" in err) == (3, True)
    code, _, err = there.format("-X", f"zookeeper.connect={there.hosts}/other")
    assert (code, "no such znode: another ensemble, or the chroot is wrong" in err) == (3, True)


def test_the_version_is_read_from_brokers_files_too(there: Migrating, tmp_path: Path) -> None:
    files = tmp_path / "a.properties", tmp_path / "b.properties"
    files[0].write_text(f"broker.id=1\n{IBP}=3.6\n")
    files[1].write_text("broker.id=2\n")
    code, _, err = there.format("--broker", files[1])
    assert (code, f"{files[1]}: it has no {IBP}" in err) == (2, True)
    code, _, err = there.format("--broker", files[0], "-r", "3.8")
    assert (code, f"-r 3.8: {IBP} of {files[0]} is 3.6-IV2" in err) == (2, True)
    code, out, err = there.format("--broker", files[0], "--broker", files[1])
    assert (code, f"metadata.version 3.6-IV2, the {IBP} of {files[0]}" in out) == (0, True)
    assert err.startswith(f"not checked: {files[1]}: it has no {IBP}, so that of ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-t", OTHER), f"cluster id {CLUSTER}, not {OTHER}"),
        (("-t", CLUSTER, "-r", "3.7"), "metadata.version 3.6-IV2, not 3.7-IV4"),
        (
            ("-X", "node.id=3001", "-X", "controller.quorum.voters=3001@127.0.0.1:19093"),
            "node id 3000, not 3001",
        ),
    ],
)
def test_a_formatted_folder_that_differs_is_no_reason_to_do_nothing(
    nowhere: Migrating, given: tuple[str, ...], said: str
) -> None:
    assert nowhere.format("-t", CLUSTER, "-r", "3.6", "--unchecked")[0] == 0
    code, _, err = nowhere.format("-g", *given)
    assert (code, f"{nowhere.data} is already formatted, with {said}: " in err) == (1, True), err
    for same in ((), ("-t", CLUSTER), ("-r", "3.6"), ("-t", CLUSTER, "-r", "3.6-IV2")):
        code, out, _ = nowhere.format("-g", *same)
        assert (code, "already formatted" in out) == (0, True)


def test_a_formatted_folder_is_compared_with_what_is_read(there: Migrating) -> None:
    assert there.format("-t", OTHER, "-r", "3.6", "--unchecked")[0] == 0
    with cluster_of(there, {1: "3.6"}):
        code, _, err = there.format("-g")
    assert (code, f"cluster id {OTHER}, not {CLUSTER}" in err) == (1, True), err


def test_very_many_brokers_are_counted() -> None:
    decided = deciding.version(
        None, ReadValues({f"broker {one}": "3.6" for one in range(20)}), needed=True
    )
    assert decided.sources == [f"metadata.version 3.6-IV2, the {IBP} of 20 brokers (0, 1, 2 …)"]


def test_a_folder_that_a_shell_would_read_otherwise_is_warned_of_once(properties: Path) -> None:
    """Nothing is made: without -t this ends before."""
    code, _, complaint = run("format", "-c", properties, "-X", "log.dirs=~/x,${HOME}/y")
    assert code == 2
    for name in ("~/x", "${HOME}/y"):
        assert complaint.count(f"log.dirs: {name} is ") == 1, complaint


def test_texts_of_others_add_no_lines(there: Migrating) -> None:
    """What a broker, a znode or the cluster's id holds is one line, without what terminals obey."""

    def refused(_request: m.DescribeConfigsRequest) -> m.DescribeConfigsResponse:
        kind = m.DescribeConfigsResponse
        result = kind.DescribeConfigsResult(error_code=31, error_message="a\nb\x1b[2J", configs=[])
        return kind(results=[result])

    with broker(refused) as one, broker(saying("3.6\nx")) as two:
        there.registered(one, 1)
        there.put(f"{brokers.ROOT}/3", b'{"version":1,"host":"h","port":99999}')
        there.put(f"{brokers.ROOT}/4", b'{"version":4,"endpoints":["a\\nb://"]}')
        _, _, err = there.format("-t", CLUSTER, "-r", "3.6")
        assert [line.partition(": broker ")[2] for line in err.splitlines()] == [
            r"1: a\nb\x1b[2J",
            "3: /brokers/ids/3: port 99999 is not 0 to 65535",
            r"""4: /brokers/ids/4: endpoint 'a\nb://': KeyError('a\nb')""",
        ]
        there.registered(two, 2)
        code, _, err = there.format("-t", CLUSTER, "-r", "3.6", "-X", f"log.dirs={there.data}2")
    assert (code, len(err.splitlines())) == (2, 1), err


def test_an_id_of_others_adds_no_lines(there: Migrating, tmp_path: Path) -> None:
    (tmp_path / "b.properties").write_text(f"{IBP}=3.6\n")
    there.tree.write(SetData(cluster.PATH, cluster.encode("a\nb\x1b[2J"), -1), 1, 0)
    for given in ((), ("-t", CLUSTER)):
        code, out, err = there.format(*given, "--broker", tmp_path / "b.properties")
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert r"a\nb\x1b[2J" in err


Result = m.DescribeConfigsResponse.DescribeConfigsResult


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ([], "it was asked for one resource, and answers for 0"),
        ([Result(), Result()], "it was asked for one resource, and answers for 2"),
        ([Result(error_code=12_345)], "error 12345"),
        ([Result()], f"it does not say its {IBP}"),
    ],
)
def test_a_broker_that_answers_wrongly_is_named(
    there: Migrating, results: list[Any], why: str
) -> None:
    with broker(lambda _: m.DescribeConfigsResponse(results=results)) as port:
        there.registered(port)
        code, _, err = there.format()
    assert (code, err.count(f"broker 1: {why}\n")) == (3, 1), err


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers there, not Kafka"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (framed(b""), "the server there is not a Kafka broker"),
        (framed(bytes(range(40))), "the server there is not a Kafka broker"),
    ],
)
def test_what_is_no_broker_is_named(there: Migrating, answer: bytes, why: str) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1_000)
            self.request.sendall(answer)
            self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        there.registered(server.server_address[1])
        code, _, err = there.format()
        server.shutdown()
        thread.join()
    assert (code, why in err, "Traceback" in err) == (3, True, False), err


def test_any_error_of_asking_a_broker_is_a_reason(
    there: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise OverflowError("port must be 0-65535.")

    monkeypatch.setattr("emulator.commands.format.asking.Connection", failed)
    there.registered(9092)
    code, _, err = there.format()
    said = "this broker could not be asked because of OverflowError: port must be 0-65535."
    assert (code, f"broker 1: {said}" in err) == (3, True), err


def test_what_was_waited_for_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is waited for 5 s, however long an answer would be."""

    def silent(*_: object, **__: object) -> None:
        raise TimeoutError

    now = itertools.count(0, 5)
    monkeypatch.setattr("emulator.commands.format.asking.Connection", silent)
    clock = SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr("emulator.commands.format.asking.time", clock)
    access = SimpleNamespace(login=None, tls="")
    config: Any = SimpleNamespace(
        inter_broker_listener_name="A", inter_broker_access=access, tls={}
    )
    znode = brokers.encode([Endpoint("A", "h", 1, 0)], None, 1)
    assert asking._asked("1", znode, config, 10) == ("", "no answer within 5 s")
