"""Nodes that are started with production's own files, before anything else is rehearsed.

They have a ZooKeeper of their own without topics, and folders that are removed. Controllers start,
brokers are registered with them, and begin anew with the files that they are to have in KRaft mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import javaproperties
import uvloop
from kazoo.client import KazooClient
from typing_extensions import override

from bench.rehearsal.own import OwnFound
from bench.rehearsal.phases import fatal
from bench.rehearsal.stand_in import StandIn
from bench.verbs.own_files import MADE_UP_NAME, Here, OwnFile, OwnFiles
from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.load import ConfigError, load
from emulator.config.zookeeper import connect_string
from emulator.io.broker_process import OPERATOR_ERRORS, BrokerFolders, BrokerProcess
from emulator.io.clock import Clock
from emulator.io.disk import FolderLockedError
from emulator.io.printable import sentence
from emulator.operations.preflight import controller_folder
from emulator.operations.preflight.node_file import CONNECT, Properties
from emulator.operations.preflight.survey import Survey
from emulator.servers.bridge import Bridge
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import ProcessError
from emulator.servers.seeded import seed
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

STILL_S: Final = 20.0
"""So long nothing has changed at all when waiting is given up."""
_REFUSED_TIMES: Final = 2
_PASSES: Final = "DUPLICATE_BROKER_REGISTRATION"
"""Until the session of the life before is over."""
_FATAL_S: Final = 5.0
_POLL_S: Final = 0.2
_END_S: Final = 30.0
_CONNECTIONS: Final = 1_000
_OURS: Final = re.compile(
    r"jaas\.config is required|Java classes are not run|not supported (?:on|for|yet)"
    r"|only DEFAULT is supported"
)
"""Of what Kafka's nodes have from elsewhere, or support."""
_GENERATED: Final = "ids are not generated"
_STRICTER: Final = "and this node is no controller"
"""Kafka's brokers in ZooKeeper mode may have a listener with that name."""
_GENERATES: Final = "broker.id.generation.enable"
_SESSION_S: Final = 60
_FILE: Final = "meta.properties"
_ERRORS: Final = (*OPERATOR_ERRORS, FolderLockedError)


class _Broker:
    """One life of a broker of ours; what it says is kept by event.

    Args:
        file: its file.
        config: read from it.
    """

    def __init__(self, file: OwnFile, config: BrokerConfig) -> None:
        self.file = file
        self.problems: dict[str, str] = {}
        self._config = config
        self._process: BrokerProcess | None = None
        self._task = asyncio.ensure_future(self._live())

    @property
    def node_id(self) -> int:
        """Its id."""
        return self._config.node_id

    @property
    def ended(self) -> bool:
        """Whether it does not run any more."""
        return self._task.done()

    @property
    def settled(self) -> bool:
        """Whether it runs, and is registered where it is to be."""
        process = self._process
        return not self.ended and process is not None and process.settled and process.registered

    @property
    def text(self) -> str:
        """Why it is not settled, as it says it."""
        return "; ".join(self.problems.values()) or "it is not registered, and nobody says why"

    async def end(self, patience_s: float) -> None:
        """Ask for a controlled shutdown; after ``patience_s`` it ends at once."""
        if not self.ended and self._process is not None and patience_s:
            self._process.request_shutdown()
            await asyncio.wait([self._task], timeout=patience_s)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        try:
            for folder, meta in self.file.metas.items():
                folder.mkdir(parents=True, exist_ok=True)
                if not (folder / _FILE).exists():
                    (folder / _FILE).write_text(javaproperties.dumps(dict(meta)))
            with contextlib.closing(BrokerFolders(self._config, fsync=False)) as folders:
                self._process = BrokerProcess(
                    self._config, folders, Clock(), self._said, connections_max=_CONNECTIONS
                )
                halt = await self._process.serve()
            if halt.exit_code:
                self.problems = {"end": halt.why}
        except _ERRORS as error:
            self.problems = {"end": sentence(error)}

    def _said(self, line: Any) -> None:
        """Keep a log line."""
        if line.level in {"warning", "error"}:
            why = " ".join(str(line.fields.get(key, "")) for key in ("why", "hint")).strip()
            self.problems[line.event] = f"{line.event}: {why}" if why else line.event


class _Controller(Bridge):
    """A controller as a process, with exactly the properties of a file.

    Args:
        folder: of its output.
        file: see there.
        release: of the cluster.
    """

    def __init__(self, folder: Path, file: OwnFile, release: str) -> None:
        super().__init__(folder, None, release=release)
        self.file = file

    @override
    def properties(self) -> dict[str, object]:
        own = {"kraftbridge.metrics.port": self.metrics_port}
        return {"kraftbridge.release": self.release, **self.file.values, **own}

    @override
    def write_properties(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {key: str(value) for key, value in self.properties().items()}
        self.config.write_text(javaproperties.dumps(values, timestamp=False))
        return self.config

    @property
    def why(self) -> str:
        """Its last words: the sentences of an error, without the names of our folders."""
        lines = [one for one in self.tail().splitlines() if one.strip()]
        return " ".join(lines[-3:]) or f"it ended with {self.exit_code}"


class _Seen(NamedTuple):
    """One look at all nodes.

    ``leading``: statuses of controllers that lead. ``texts``: reasons of theirs that nobody
    removes. ``refused``: broker -> why. ``waits``: brokers that are not registered yet. ``sign``:
    another one when there was progress.
    """

    leading: Sequence[Mapping[str, Any]]
    texts: Sequence[str]
    refused: Mapping[int, str]
    waits: Sequence[_Broker]
    sign: object


class _Unchanged:
    """How long something is as it is."""

    def __init__(self) -> None:
        self._last: object = None
        self._since_s = time.monotonic()

    def for_s(self, now: object) -> float:
        """Seconds since it was something else than now."""
        if now != self._last:
            self._last, self._since_s = now, time.monotonic()
        return time.monotonic() - self._since_s


_NOT_DURABLE: Final = partial(ZooKeeper, fsync=False)


class StartedFiles:
    """See ``bench.rehearsal.own.OwnNodes``.

    Args:
        survey: the files.
        cluster_id: of the cluster.
        release: of the broker of a file, by its id.
        folders: of controllers, to be started with a copy of them.
        shown: file and text -> what may be said of it.
        server: makes the ZooKeeper of a folder.
    """

    def __init__(
        self,
        survey: Survey,
        cluster_id: str,
        release: Callable[[int | None], str],
        folders: Sequence[Path],
        shown: Callable[[str, str], str],
        *,
        server: Callable[[Path], ZooKeeper] = _NOT_DURABLE,
    ) -> None:
        self._survey = survey
        self._cluster_id = cluster_id
        self._release = release
        here = [Path(one.log_dir) for one in survey.controllers if one.log_dir in one.metas]
        self._folders = [*dict.fromkeys((*folders, *here))]
        self._shown = shown
        self._server = server
        self._found = OwnFound()
        self._brokers: list[_Broker] = []
        self._controllers: list[_Controller] = []
        self._expected = 0

    def play(self, note: Callable[[str], None]) -> OwnFound:
        """See OwnNodes."""
        if not self._survey.all_files:
            note("no file was given: every node has the rehearsal's properties")
            return self._found
        with (
            tempfile.TemporaryDirectory(prefix="kraft-bridge-files-") as name,
            _zookeeper(
                self._server(Path(name) / "zookeeper"), _chroot(self._survey), self._cluster_id
            ) as (hosts, client),
        ):
            here = _here(hosts, Path(name))
            files = files_of(self._survey, here)
            try:
                self._start_controllers(files.controllers, Path(name))
                note(f"{len(self._controllers)} controllers run with files of their own")
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._played(files, client, note))
            finally:
                for one in self._controllers:
                    one.kill()
        return self._found

    # ---------------------------------------------------------------- the parts
    async def _played(
        self, files: OwnFiles, client: KazooClient, note: Callable[[str], None]
    ) -> None:
        try:
            self._begin(files.brokers)
            copied = await self._settle()
            self._look_at_addresses(client, files.taken)
            note(f"{sum(x.settled for x in self._brokers)} brokers run with files of their own")
            await self._roll(files.targets, copied=copied)
        finally:
            for one in self._brokers:
                await one.end(0)

    def read(self, files: OwnFiles) -> OwnFound:
        """What the nodes say when they only read their files."""
        for file in files.controllers:
            self._read(file, load)
        for file in (*files.brokers, *files.targets):
            self._read(file, lambda raw: load_broker(raw, HOST))
        return self._found

    def _refuse(self, name: str, text: str) -> None:
        why = self._shown(name, text)
        if why not in self._found.refused:
            self._found.refused.append(why)

    def _read(self, file: OwnFile, reads: Callable[[Mapping[str, str]], Any]) -> Any:
        """What a node reads; None if it does not start with it."""
        try:
            return reads(file.values)[0]
        except ConfigError as error:
            generates = file.values.get(_GENERATES, "true").strip().lower() == "true"
            ours = [
                one
                for one in error.problems
                if _OURS.search(one)
                or (generates and _GENERATED in one)
                or (not file.in_kraft and _STRICTER in one)
            ]
            if len(ours) == len(error.problems):
                self._found.unseen.append(self._shown(file.name, "ours does not start with it"))
            for one in error.problems:
                if one not in ours:
                    self._refuse(file.name, one)
            return None

    # ---------------------------------------------------------------- controllers
    def _start_controllers(self, files: Sequence[OwnFile], folder: Path) -> None:
        self._expected = len(files)
        release = self._release(None)
        for number, file in enumerate(files):
            config = self._read(file, load)
            if config is None:
                continue
            one = _Controller(folder / f"controller-{number}", file, release)
            try:
                if not self._is_copied(file, Path(config.log_dir)):
                    one.format(self._cluster_id, release, new_quorum=True)
                one.start()
            except ProcessError:
                self._refuse(file.name, one.why)
                continue
            self._controllers.append(one)
        for one in self._controllers:
            with contextlib.suppress(ProcessError):  # it ended: that is judged with the brokers
                one.wait_started()

    def _is_copied(self, file: OwnFile, data: Path) -> bool:
        """Whether a folder of production was copied, so that none is to be formatted."""
        known = {one.node_id for one in self._survey.controllers}
        own = [one for one in self._folders if _node_id(one) == file.node_id]
        nobodys = [one for one in self._folders if _node_id(one) not in known]
        place = next(iter((*own, *nobodys)), None)
        if place is None:
            return False
        self._folders.remove(place)
        data.mkdir(parents=True, exist_ok=True)
        for path in [one for one in place.rglob("*") if one.is_file()]:
            name = path.relative_to(place).as_posix()
            if controller_folder.wanted(name):
                (data / name).parent.mkdir(parents=True, exist_ok=True)
                (data / name).write_bytes(path.read_bytes())
        return True

    # ---------------------------------------------------------------- brokers
    def _begin(self, files: Sequence[OwnFile]) -> None:
        for file in files:
            values = {"kraftbridge.release": self._release(file.node_id), **file.values}
            own = OwnFile(file.name, file.node_id, values, file.metas)
            config = self._read(own, lambda raw: load_broker(raw, HOST))
            if config is not None:
                self._brokers.append(_Broker(own, config))

    async def _roll(self, files: Sequence[OwnFile], *, copied: bool) -> None:
        """Brokers end, and begin with the files that they are to have in KRaft mode.

        If the copy is not done, or a broker does not run, its file is only read.
        """
        here = {x.node_id for x in self._brokers if x.settled and x.file.migrates and copied}
        for file in files:
            if not file.in_kraft:
                self._refuse(file.name, "process.roles=broker is required in KRaft mode")
            elif file.node_id not in here:
                self._read(file, lambda raw: load_broker(raw, HOST))
        targets = [one for one in files if one.in_kraft and one.node_id in here]
        if not targets:
            return
        ids = {one.node_id for one in targets}
        old, self._brokers = self._brokers, []
        await asyncio.gather(*(one.end(_END_S) for one in old if one.node_id in ids))
        self._begin(targets)
        try:
            await self._settle()
        finally:
            for one in old:
                await one.end(0)

    async def _settle(self) -> bool:
        """Wait until each broker is where it is to be, or until waiting does not help.

        Returns:
            Whether brokers may be rolled: a controller leads, and the copy is done.
        """
        still, held = _Unchanged(), _Unchanged()
        while True:
            statuses = await asyncio.to_thread(lambda: [one.status() for one in self._alive()])
            seen = self._seen([one for one in statuses if one is not None])
            hopeless = bool(seen.texts or seen.refused)
            held_s, still_s = held.for_s(hopeless), still.for_s(seen.sign)
            waits = [one for one in seen.waits if one.node_id not in seen.refused]
            if not hopeless and not waits and self._copied(seen.leading):
                break
            if hopeless and held_s > _FATAL_S and (seen.texts or not waits):
                break
            if still_s > STILL_S:
                break
            await asyncio.sleep(_POLL_S)
        self._judge(seen)
        return any(_state(one) == "DUAL_WRITE" for one in seen.leading)

    def _seen(self, statuses: Sequence[Mapping[str, Any]]) -> _Seen:
        leading = [one for one in statuses if one["active"]]
        ids = [one.node_id for one in self._brokers]
        settled = {one.node_id for one in self._brokers if one.settled}
        states = [(one["active"], _state(one), [*_waiting(one)]) for one in statuses]
        lives = [(one.settled, one.ended, sorted(one.problems)) for one in self._brokers]
        return _Seen(
            leading,
            [text for one in statuses for text in fatal(one, ids)],
            {x: text for one in leading for x, text in _refusals(one) if x not in settled},
            [one for one in self._brokers if not one.settled and not one.ended],
            (states, lives),
        )

    def _alive(self) -> list[_Controller]:
        return [one for one in self._controllers if one.alive]

    @property
    def _lacking(self) -> bool:
        """Whether there can be no leader: nobody is to be registered then."""
        return 2 * len(self._alive()) <= self._expected

    def _copied(self, leading: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the copy is done, if anything migrates."""
        migrate = any(one.settled and one.file.migrates for one in self._brokers)
        return not migrate or self._lacking or any(_state(x) == "DUAL_WRITE" for x in leading)

    def _judge(self, seen: _Seen) -> None:
        """Who does not take part, and why."""
        for node in [x for x in self._controllers if not x.alive]:
            self._refuse(node.file.name, node.why)
        unruled = self._controllers and not self._lacking and not seen.leading
        if unruled:
            self._refuse("controllers", "none leads: they do not find each other, or refuse it")
        for one in self._brokers:
            if not one.settled and (one.ended or not (self._lacking or unruled)):
                self._refuse(one.file.name, seen.refused.get(one.node_id, one.text))
        for text in dict.fromkeys(seen.texts):
            self._refuse("controllers", text)
        if all(one.settled for one in self._brokers) and not self._copied(seen.leading):
            self._refuse("controllers", "the copy does not begin, and nobody says why")

    def _look_at_addresses(self, client: KazooClient, live: Mapping[str, int]) -> None:
        """Of two brokers with one address Kafka refuses the second (KafkaServer.createBrokerInfo).

        Ours does not look at the others when it registers.
        """
        known: dict[str, int] = dict(live)
        for name in sorted(client.get_children("/brokers/ids"), key=int):
            found = json.loads(client.get(f"/brokers/ids/{name}")[0])
            for end in found["endpoints"]:
                place = end.partition("://")[2]
                other = known.setdefault(place, int(name))
                if other != int(name):
                    file = next(
                        (x.file.name for x in self._brokers if x.node_id == int(name)), name
                    )
                    told = f"an advertised address of broker {name} is that of broker {other}"
                    self._refuse(file, f"{told}: Kafka registers only one of them")


# ---------------------------------------------------------------- what is around them
@contextlib.contextmanager
def _zookeeper(
    server: ZooKeeper, chroot: str, cluster_id: str
) -> Iterator[tuple[str, KazooClient]]:
    """A ZooKeeper with a cluster without topics, in which somebody is elected."""
    client = stand_in = None
    try:
        server.start().wait_started()
        with contextlib.closing(KazooClient(server.hosts, timeout=_SESSION_S)) as above:
            above.start(timeout=PATIENCE_S)
            above.ensure_path(chroot or "/")
            above.stop()
        client = KazooClient(f"{server.hosts}{chroot}", timeout=_SESSION_S)
        client.start(timeout=PATIENCE_S)
        seed(client, cluster_id)
        stand_in = StandIn(client, 0)
        stand_in.start()
        yield server.hosts, client
    finally:
        if stand_in is not None:
            stand_in.close()
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that ends
                client.stop()
                client.close()
        server.kill()


def files_of(survey: Survey, here: Here) -> OwnFiles:
    """The files of all nodes. Nobody can log in by SCRAM if a controller's folder has no user."""
    rolled = [one for one in survey.properties if one.is_kraft_broker]
    present = [one for one in survey.properties if not one.is_controller and one not in rolled]
    return OwnFiles(
        [*present, *survey.controllers],
        [*survey.targets, *rolled],
        _live(survey),
        here,
        known_users=not survey.folders or any(one.users for one in survey.folders),
    )


def _here(hosts: str, folder: Path) -> Here:
    ports = chain.from_iterable(free_ports(64) for _ in repeat(None))
    key, trusted = _certificate(folder)
    return Here(hosts, folder, ports, key, trusted)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A key with a certificate for this machine, and the certificate alone."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, MADE_UP_NAME)])
    now = datetime.now(UTC)
    places = [x509.DNSName("localhost"), x509.IPAddress(ip_address(HOST))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    own, trusted = folder / "node.pem", folder / "trusted.pem"
    trusted.write_bytes(pem)
    own.touch(mode=0o600)
    own.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + pem
    )
    return own, trusted


def _live(survey: Survey) -> dict[str, int]:
    """``host:port`` -> broker, of those of which no file was given."""
    known = {one.node_id for one in survey.all_files}
    return {
        end.partition("://")[2]: number
        for number in survey.live_brokers - known
        for end in survey.endpoints(number)
    }


def _chroot(survey: Survey) -> str:
    """That of most brokers."""
    found = [one for each in survey.brokers if (one := _chroot_of(each)) is not None]
    return max(found, key=found.count, default="")


def _chroot_of(one: Properties) -> str | None:
    try:
        return connect_string(one.get(CONNECT))[1]
    except ValueError:
        return None


def _node_id(folder: Path) -> int | None:
    try:
        found = javaproperties.loads((folder / _FILE).read_text())
        return int(found.get("node.id", ""))
    except (OSError, ValueError):
        return None


def _state(status: Mapping[str, Any]) -> str:
    migration = status["migration"]
    return "" if migration is None else str(migration["driver_state"])


def _waiting(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in (status["migration"] or {}).get("waiting", ()):
        yield str(one["why"]), str(one["subject"])


def _refusals(status: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for one in status["refusals"]:
        if one["times"] >= _REFUSED_TIMES and one["error"] != _PASSES:
            text = f"{one['error']}: {one['text']} {one['remedy']}".strip()
            yield one["broker"], f"the controller refuses it: {text}"
