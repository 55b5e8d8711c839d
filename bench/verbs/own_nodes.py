"""Nodes that are started with production's own files, before anything else is rehearsed.

They have a ZooKeeper of their own without topics, and folders that are removed. Controllers start,
brokers are registered with them, and begin anew with the files that they are to have in KRaft mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import time
import traceback
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
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from typing_extensions import override

from bench.rehearsal.own import OwnFound
from bench.rehearsal.phases import fatal
from bench.rehearsal.stand_in import StandIn
from bench.verbs.own_files import LISTENERS, MADE_UP_NAME, Here, OwnFile, OwnFiles
from emulator.config.broker import BrokerConfig, load_broker
from emulator.config.load import ConfigError, load
from emulator.config.zookeeper import connect_string
from emulator.io.broker_process import OPERATOR_ERRORS, BrokerFolders, BrokerProcess
from emulator.io.clock import Clock
from emulator.io.disk import FolderLockedError
from emulator.io.printable import sentence
from emulator.metadata.znodes import why_no_name
from emulator.operations.preflight import controller_folder
from emulator.operations.preflight.node_file import CONNECT, number
from emulator.operations.preflight.survey import Survey
from emulator.servers.bridge import Bridge
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import PortTakenError, ProcessError
from emulator.servers.seeded import seed
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

FOLDER: Final = "own-files"
STILL: Final = 100
"""Looks at which nothing has changed at all when waiting is given up; all answer at each of them.

By looks, and not by the clock: where a machine is slow, looks are too.
"""
_STAYS: Final = 25
"""Looks after which a reason that waiting does not remove is believed."""
_TIMERS: Final = (
    "broker.session.timeout.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
)
"""So long nodes themselves may wait, without any change."""
_REFUSED_TIMES: Final = 2
_PASSES: Final = "DUPLICATE_BROKER_REGISTRATION"
"""Until the session of the life before is over."""
_POLL_S: Final = 0.2
_ANSWER_S: Final = 2.0
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
_OF_THE_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Errors for which no node's file is to blame."""
_NOT_THE_FILE: Final = "its file is not to blame, rehearse again with more room or limits"


class _Broker:
    """One life of a broker of ours; what it says is kept by event.

    Args:
        file: its file.
        config: read from it.
    """

    def __init__(self, file: OwnFile, config: BrokerConfig) -> None:
        self.file = file
        self.problems: dict[str, str] = {}
        self.error: Exception | None = None
        """Why it does not run any more."""
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

    async def end(self) -> None:
        """Ask for a controlled shutdown; one that takes too long is ended."""
        if not self.ended and self._process is not None:
            self._process.request_shutdown()
            await asyncio.wait([self._task], timeout=_END_S)
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
        except Exception as error:  # noqa: BLE001 - whose fault it is is judged with all others
            self.error = error
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
        """Its last words: the sentences of an error."""
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


class _Looks:
    """How often in a row something is seen as it is."""

    def __init__(self) -> None:
        self._last: object = None
        self._times = 0

    def times(self, now: object) -> int:
        """Looks since it was something else than now."""
        self._times = self._times + 1 if now == self._last else 1
        self._last = now
        return self._times


_Listen = dict[str, list[tuple[int | None, bool]]]
"""Port here -> node and whether in KRaft mode, once for each listener."""
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
        self._still = STILL
        self._listen: _Listen = {}
        self._in_files: Callable[[str], str] = str
        """Text of a node -> with the names of production's folders."""

    def play(self, folder: Path, note: Callable[[str], None]) -> OwnFound:
        """See OwnNodes."""
        if not self._survey.all_files:
            note("no file was given: every node has the rehearsal's properties")
            return self._found
        with (
            _alone(folder / FOLDER) as place,
            _zookeeper(
                self._server(place / "zookeeper"), _chroot(self._survey), self._cluster_id
            ) as zookeeper,
        ):
            here = _here(zookeeper.server.hosts, place)
            files = files_of(self._survey, here)
            self._in_files = files.as_given
            self._still = _still(files)
            self._listen = _listening(files)
            try:
                self._start_controllers(files.controllers, place)
                note(f"{len(self._alive())} controllers run with files of their own")
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._played(files, zookeeper, note))
            finally:
                for one in self._controllers:
                    one.kill()
        return self._found

    # ---------------------------------------------------------------- the parts
    async def _played(
        self, files: OwnFiles, zookeeper: _Around, note: Callable[[str], None]
    ) -> None:
        """The runner ends all brokers that are left."""
        self._begin(files.brokers)
        copied = await self._settle(zookeeper)
        await asyncio.to_thread(self._look_at_addresses, zookeeper.client, files.taken)
        note(f"{sum(x.settled for x in self._brokers)} brokers run with files of their own")
        await self._roll(files.targets, zookeeper, copied=copied)

    def read(self, files: OwnFiles) -> OwnFound:
        """What the nodes say when they only read their files."""
        for file in files.controllers:
            self._read(file, load)
        for file in (*files.brokers, *files.targets):
            self._read(file, lambda raw: load_broker(raw, HOST))
        return self._found

    def _refuse(self, name: str, text: str) -> None:
        why = self._shown(name, self._in_files(text))
        if why not in self._found.refused:
            self._found.refused.append(why)

    def _read(self, file: OwnFile, reads: Callable[[Mapping[str, str]], Any]) -> Any:
        """What a node reads; None if it does not start with it."""
        try:
            found = reads(file.values)[0]
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
        if why := _no_chroot(file.values.get(CONNECT, "")):
            self._refuse(file.name, why)
            return None
        return found

    # ---------------------------------------------------------------- controllers
    def _start_controllers(self, files: Sequence[OwnFile], folder: Path) -> None:
        self._expected = len(files)
        release = self._release(None)
        for place, file in enumerate(files):
            config = self._read(file, load)
            if config is None:
                continue
            one = _Controller(folder / f"controller-{place}", file, release)
            self._controllers.append(one)  # so that it is ended, also while it is formatted
            try:
                if not self._is_copied(file, Path(config.log_dir)):
                    one.format(self._cluster_id, release, new_quorum=True)
                one.start()
            except ProcessError:
                _check_controller(one)
                self._controllers.remove(one)
                self._refuse(file.name, one.why)
        for one in self._controllers:
            try:
                one.wait_started()
            except PortTakenError:
                if self._has_ports_alone(one.file):
                    raise
            except ProcessError:
                if one.alive:
                    raise

    def _has_ports_alone(self, file: OwnFile) -> bool:
        """Whether no other node has a port of it, so that another program has it if it is taken."""
        found = [self._listen[port] for port in _ports(file)]
        return all(len({node for node, _ in x}) == 1 and len({*x}) == len(x) for x in found)

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
                shutil.copyfile(path, data / name)
        return True

    # ---------------------------------------------------------------- brokers
    def _begin(self, files: Sequence[OwnFile]) -> None:
        for file in files:
            values = {"kraftbridge.release": self._release(file.node_id), **file.values}
            own = OwnFile(file.name, file.node_id, values, file.metas)
            config = self._read(own, lambda raw: load_broker(raw, HOST))
            if config is not None:
                self._brokers.append(_Broker(own, config))

    async def _roll(self, files: Sequence[OwnFile], zookeeper: _Around, *, copied: bool) -> None:
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
        await asyncio.gather(*(one.end() for one in self._brokers if one.node_id in ids))
        self._brokers = []
        self._begin(targets)
        await self._settle(zookeeper)

    async def _settle(self, zookeeper: _Around) -> bool:
        """Wait until each broker is where it is to be, or until waiting does not help.

        Returns:
            Whether brokers may be rolled: a controller leads, and the copy is done.

        Raises:
            ProcessError: something has ended or does not answer for which no file is to blame.
        """
        unchanged, hopeless = _Looks(), _Looks()
        while True:
            seen = self._seen(await self._answers(zookeeper))
            stuck = bool(seen.texts or seen.refused)
            stays, still = hopeless.times(stuck), unchanged.times(seen.sign)
            waits = [one for one in seen.waits if one.node_id not in seen.refused]
            if not stuck and not waits and self._copied(seen.leading):
                break
            if stuck and stays > _STAYS and (seen.texts or not waits):
                break
            if still > self._still:
                break
            await asyncio.sleep(_POLL_S)
        self._judge(seen)
        return any(_state(one) == "DUAL_WRITE" for one in seen.leading)

    async def _answers(self, zookeeper: _Around) -> Sequence[Mapping[str, Any]]:
        """The status of each controller that runs, as soon as all and ZooKeeper answer.

        Raises:
            ProcessError: ZooKeeper has ended, or one of them does not answer at all.
        """
        end = time.monotonic() + PATIENCE_S
        while (found := await asyncio.to_thread(self._asked, zookeeper)) is None:
            if time.monotonic() > end:
                raise ProcessError(
                    f"ZooKeeper or a controller gave no answer within {PATIENCE_S:g} s: rehearse "
                    "where less runs"
                )
            await asyncio.sleep(_POLL_S)
        for one in self._brokers:
            self._check(one)
        return found

    def _asked(self, zookeeper: _Around) -> list[Mapping[str, Any]] | None:
        if not zookeeper.server.alive:
            code, said = zookeeper.server.exit_code, zookeeper.server.tail()
            raise ProcessError(f"ZooKeeper ended by itself with {code}:\n{said}")
        try:
            zookeeper.client.exists_async("/").get(timeout=_ANSWER_S)
        except (KazooException, KazooTimeoutError):
            return None
        found = [(one, one.status()) for one in self._alive()]
        if any(status is None and one.alive for one, status in found):
            return None
        return [status for _, status in found if status is not None]

    def _check(self, one: _Broker) -> None:
        """See that a broker has not ended for a reason for which no file is to blame.

        Raises:
            ProcessError: it has.
        """
        error = one.error
        if error is None:
            return
        if not isinstance(error, _ERRORS):
            at = traceback.extract_tb(error.__traceback__)[-1]
            raise ProcessError(
                f"broker {one.node_id} of ours failed: {type(error).__name__} in "
                f"{Path(at.filename).name}, line {at.lineno}: a defect of kraft-bridge, report it"
            ) from error
        code = getattr(error.__cause__ or error, "errno", None)
        taken = code == errno.EADDRINUSE and self._has_ports_alone(one.file)
        if code in _OF_THE_MACHINE or taken:
            raise ProcessError(
                f"broker {one.node_id} does not run: {sentence(error)}: {_NOT_THE_FILE}"
            ) from error

    def _seen(self, statuses: Sequence[Mapping[str, Any]]) -> _Seen:
        leading = [one for one in statuses if one["active"]]
        ids = [one.node_id for one in self._brokers]
        settled = {one.node_id for one in self._brokers if one.settled}
        waits = [one for one in self._brokers if not one.settled and not one.ended]
        states = [(one["active"], _state(one), [*_waiting(one)]) for one in statuses]
        lives = [(one.settled, one.ended, sorted(one.problems)) for one in self._brokers]
        # Nobody is there while some are only about to register, or if there is no file of a broker.
        passes = frozenset({"no_brokers"} if waits or not settled else ())
        return _Seen(
            leading,
            [text for one in statuses for text in fatal(one, ids, passes)],
            {x: text for one in leading for x, text in _refusals(one) if x not in settled},
            waits,
            (states, lives),
        )

    def _alive(self) -> list[_Controller]:
        return [one for one in self._controllers if one.alive]

    @property
    def _lacking(self) -> bool:
        """Whether there can be no leader, as too few run: nobody is to be registered then."""
        return 2 * len(self._alive()) <= self._expected

    def _copied(self, leading: Sequence[Mapping[str, Any]]) -> bool:
        """Whether one leads, and the copy is done, if anything migrates."""
        if self._lacking:
            return True
        migrate = any(one.settled and one.file.migrates for one in self._brokers)
        return any(not migrate or _state(one) == "DUAL_WRITE" for one in leading)

    def _judge(self, seen: _Seen) -> None:
        """Who does not take part, and why.

        Raises:
            ProcessError: no file is to blame.
        """
        for node in [x for x in self._controllers if not x.alive]:
            _check_controller(node)
            self._refuse(node.file.name, node.why)
        unruled = not self._lacking and not seen.leading
        if unruled:
            self._refuse("controllers", "none leads: they do not find each other, or refuse it")
        for one in self._brokers:
            if not one.settled and (one.ended or not (self._lacking or unruled)):
                self._refuse(one.file.name, seen.refused.get(one.node_id, one.text))
        for text in dict.fromkeys(seen.texts):
            self._refuse("controllers", text)
        settled = all(one.settled for one in self._brokers)
        if settled and not unruled and not self._copied(seen.leading):
            self._refuse("controllers", "the copy does not begin, and nobody says why")

    def _look_at_addresses(self, client: KazooClient, live: Mapping[str, int]) -> None:
        """Of two brokers with one address Kafka refuses the second (KafkaServer.createBrokerInfo).

        Ours does not look at the others when it registers.
        """
        known: dict[str, int] = dict(live)
        ids: list[str] = _answer(client.get_children_async("/brokers/ids"))
        for name in sorted(ids, key=int):
            try:
                found = json.loads(_answer(client.get_async(f"/brokers/ids/{name}"))[0])
            except NoNodeError:  # it has ended since
                continue
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
class _Around(NamedTuple):
    """The ZooKeeper of the nodes, and a client below their chroot."""

    server: ZooKeeper
    client: KazooClient


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """A new folder of this user alone, removed at the end; one that a killed run left is too."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _zookeeper(server: ZooKeeper, chroot: str, cluster_id: str) -> Iterator[_Around]:
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
        yield _Around(server, client)
    finally:
        if stand_in is not None:
            stand_in.close()
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that ends
                client.stop()
                client.close()
        server.kill()


def _answer(asked: IAsyncResult) -> Any:
    """The answer of a ZooKeeper.

    Raises:
        KazooTimeoutError: it does not come.
    """
    return asked.get(timeout=PATIENCE_S)


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


def _still(files: OwnFiles) -> int:
    """Looks at which nothing has changed when waiting is given up, with the timers of all files."""
    every = (*files.controllers, *files.brokers, *files.targets)
    timers = (number(one.values.get(key, "")) for one in every for key in _TIMERS)
    longest_s = max((one / 1_000 for one in timers if one is not None), default=0.0)
    return STILL + int(min(longest_s, PATIENCE_S) / _POLL_S)


def _check_controller(one: _Controller) -> None:
    """See that a controller has not ended for a reason for which no file is to blame.

    Raises:
        ProcessError: it has.
    """
    code, last = one.exit_code or 0, one.tail()
    said = next((x for x in map(os.strerror, _OF_THE_MACHINE) if x in last), "")
    if code < 0 or said:
        why = said or f"signal {-code}"
        raise ProcessError(f"controller {one.file.node_id} ended: {why}: {_NOT_THE_FILE}")


def _ports(file: OwnFile) -> list[str]:
    """Where it listens here."""
    return re.findall(r":(\d+)(?=,|$)", file.values.get(LISTENERS, ""))


def _listening(files: OwnFiles) -> _Listen:
    found: _Listen = {}
    for one in (*files.controllers, *files.brokers, *files.targets):
        for port in _ports(one):
            found.setdefault(port, []).append((one.node_id, one in files.targets))
    return found


def _live(survey: Survey) -> dict[str, int]:
    """``host:port`` -> broker, of those of which no file was given."""
    known = {one.node_id for one in survey.all_files}
    return {
        end.partition("://")[2]: number
        for number in survey.live_brokers - known
        for end in survey.endpoints(number)
    }


def _chroot(survey: Survey) -> str:
    """That of most brokers, or controllers, of those that ZooKeeper takes."""
    texts = [one.get(CONNECT) for one in survey.brokers or survey.controllers]
    found = [chroot_of(one) or "" for one in texts if not _no_chroot(one)]
    return max(found, key=found.count, default="")


def chroot_of(text: str) -> str | None:
    """The chroot of a ``zookeeper.connect``; None: it cannot be read."""
    try:
        return connect_string(text)[1]
    except ValueError:
        return None


def _no_chroot(text: str) -> str | None:
    """Why ZooKeeper's client does not start with it (PathUtils.validatePath)."""
    chroot = chroot_of(text) or ""
    reasons = filter(None, map(why_no_name, chroot.split("/")[1:]))
    return next((f"{CONNECT}: a name in the chroot {chroot} {one}" for one in reasons), None)


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
