"""Looking at a cluster for a rollback: ZooKeeper, the nodes' files and folders, ``/status``."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from emulator.commands import folders
from emulator.commands.configuration import text_of
from emulator.commands.preflight import inputs
from emulator.commands.status import SCHEMAS, OtherReleaseError, misread, status_of
from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector
from emulator.config.listeners import METRICS_PORT, HostPort
from emulator.config.properties import parse
from emulator.io import folder_holder, status_url
from emulator.io.printable import sentence
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.tree_diff import Difference, ahead, differences
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import Survey, of_dump
from emulator.operations.rollback import missing
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.phases import RollbackPhase, phase_of
from emulator.operations.rollback.situation import (
    ControllerSeen,
    FolderSeen,
    Reached,
    Situation,
    runs,
)
from emulator.raft import layout
from emulator.servers import zk_dump
from emulator.znodes.migration import MigrationZnode
from emulator.znodes.tree import Tree, TreeNode

# Reads the end of each controller's log on this machine: what may not be in ZooKeeper.


def read_log_end(controllers: Iterable[ControllerSeen], mark: MigrationZnode) -> list[FolderEnd]:
    """The end of each log, from the segment on that holds the offset in ``/migration``."""
    offset, epoch = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
    ends = []
    for name in (one.folder for one in controllers if one.folder):
        try:
            files = _segments(Path(name), offset)
        except OSError as error:
            ends.append(FolderEnd(name, problem=f"{error.filename}: {error.strerror}"))
            continue
        ends.append(missing.read(name, files, offset, epoch))
    return ends


def state_moved(seen: Situation) -> bool:
    """Whether a log here may have another state of the migration than was seen, or be unreadable.

    A folder that cannot be read counts as moved: the next complete look reports the reason.
    """
    for one in seen.survey.folders:
        try:
            files = _segments(Path(one.name), missing.committed(one))
        except OSError:
            return True
        if missing.state_moved(files, one):
            return True
    return False


def _segments(folder: Path, offset: int) -> dict[str, bytes]:
    """Segments that can hold what follows an offset, by path below the folder."""
    inner = folder / layout.FOLDER
    found = {
        base: path
        for path in inner.iterdir()
        if (base := layout.segment_base(f"{layout.FOLDER}/{path.name}")) is not None
    }
    first = max((base for base in found if base <= offset), default=0)
    return {
        f"{layout.FOLDER}/{path.name}": path.read_bytes()
        for base, path in found.items()
        if base >= first
    }


# A controller's address: whether somebody listens there, and whether it is of this machine.

CONNECT_S: Final = 1.0
_NONLOCAL: Final = {
    socket.AF_INET: Path("/proc/sys/net/ipv4/ip_nonlocal_bind"),
    socket.AF_INET6: Path("/proc/sys/net/ipv6/ip_nonlocal_bind"),
}
"""Whether sockets can be bound to addresses of other machines, too: 0 if not."""


def ask(address: HostPort | None) -> tuple[Reached, str]:
    """What comes of connecting to a controller's address, and a sentence about it."""
    if address is None:
        return Reached.NO_ADDRESS, "no file says where it listens"
    try:
        with socket.create_connection((address.host, address.port), CONNECT_S):
            return Reached.YES, f"{address} accepts connections"
    except TimeoutError:
        return Reached.NONE, f"{address}: no answer within {CONNECT_S:g} s"
    except socket.gaierror as error:
        return Reached.NONE, f"the name {address.host} does not resolve: {error.strerror}"
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED
        return Reached.REFUSED if refused else Reached.NONE, f"{address}: {error.strerror or error}"
    except (UnicodeError, ValueError, OverflowError):
        return Reached.NONE, f"{address.host!r} is no name of a host"


def is_here(address: HostPort) -> bool:
    """Whether an address is of this machine, whatever its name resolves to; False if not known."""
    try:
        found = {
            (family, where)
            for family, _, _, _, where in socket.getaddrinfo(
                address.host, 0, type=socket.SOCK_DGRAM
            )
        }
        return bool(found) and all(_bound(family, where) for family, where in found)
    except (OSError, UnicodeError, ValueError):
        return False


def _bound(family: socket.AddressFamily, where: tuple[Any, ...]) -> bool:
    """Whether an address is that of an interface of this machine.

    Raises:
        OSError: it is not.
    """
    address = ipaddress.ip_address(where[0].partition("%")[0])
    if address.is_loopback or address.is_unspecified:
        return not address.is_unspecified  # which every machine has
    if _NONLOCAL[family].read_text().strip() != "0":
        return False
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.bind(where)
    return True


def elsewhere(address: HostPort | None) -> str:
    """Why a folder is not known to be the one of the controller at an address."""
    return "no file names an address" if address is None else f"{address} is not of this machine"


_SILENT: Final = frozenset({Reached.NONE, Reached.NO_ADDRESS})
UNREADABLE: Final = (zk_dump.UnreadableError, inputs.PreflightError)
"""What a look raises."""
NOT_HERE: Final = folder_holder.FolderHolder(None, None)


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator gave. ``properties``: files of controllers and brokers."""

    hosts: str
    properties: Sequence[Properties] = ()
    log_dirs: Sequence[Path] = ()
    broker_folders: Sequence[Path] = ()


class Looker:
    """Looks at a cluster, again and again.

    Raises:
        PreflightError: a folder is no controller's.
    """

    def __init__(self, given: Given, connect: Connector) -> None:
        self._given = given
        self._connect = connect
        self._named: set[str] = set()
        self._held: set[int] = set()
        """Controllers whose folder was seen to be held: it is theirs."""
        self.paths: dict[int, Path] = {}
        """Controllers' folders on this machine, by node id."""
        self._files: dict[int | None, Properties] = {}
        for one in given.properties:
            if not one.is_controller:
                continue
            known = self._files.setdefault(one.node_id, one)
            if known.values != one.values:
                raise inputs.PreflightError(
                    f"{known.name} and {one.name} are both of controller {one.node_id}: give one"
                )
        voter_sets = {one.voters: one.name for one in given.properties if one.voters}
        voters = frozenset[int]().union(*voter_sets)
        for path in self._candidates():
            found = inputs.read_folder(path)
            if found.voters:
                voter_sets.setdefault(found.voters, found.name)
            # A broker has a copy of the log, too: its process must not be stopped.
            if found.node_id is None or found.node_id not in voters | found.voters:
                raise inputs.PreflightError(
                    f"{path}: not known to be a controller's folder; give -c of its controller"
                )
            other = self.paths.setdefault(found.node_id, path)
            if not other.samefile(path):
                raise inputs.PreflightError(
                    f"{other} and {path} are both of controller {found.node_id}: which has its "
                    "newest log is not known; give one"
                )

        if len(voter_sets) > 1:
            sets = ", ".join(f"{sorted(ids)} in {name}" for ids, name in voter_sets.items())
            raise inputs.PreflightError(
                f"the voters are not the same everywhere: {sets}. A majority of which is needed is "
                "not known: give the files and folders of one quorum"
            )

    def look(self) -> Situation:
        """Look at everything.

        Raises:
            PreflightError: a file or folder cannot be read.
            UnreadableError: ZooKeeper cannot be read.
        """
        dump = zk_dump.dump(
            self._given.hosts,
            with_secrets=True,
            timeout_s=CONNECT_TIMEOUT_S,
            connect=self._connect,
        )
        read = [inputs.read_folder(path) for path in self.paths.values()]
        survey = replace(of_dump(dump, self._given.properties), folders=read)
        nodes = self.controllers()
        voters = {one.node_id for one in nodes}
        voters |= {x for one in self._given.properties for x in one.voters}
        voters |= {x for one in read for x in one.voters}
        seen = Situation(survey, nodes, self._broker_folders(), voters=len(voters))
        if seen.freed_by_others and not seen.running:
            seen = replace(seen, ends=read_log_end(nodes, seen.stage.mark))
        final = phase_of(seen) is RollbackPhase.FINALISED
        # While a leader answers, the log is being written, and need not be read.
        leader_answers = seen.leader is not None and not final
        image, why = (None, "") if leader_answers else self._image(seen)
        seen = replace(seen, modes=_modes(seen, image), not_compared=why)
        if image is None or (seen.running and not final):
            return seen
        if image.migration_state == MigrationState.PRE_MIGRATION:
            return replace(seen, differences=())
        return replace(seen, differences=_differences(dump, image))

    def controllers(self) -> tuple[ControllerSeen, ...]:
        """Every controller that a file, or a folder, names."""
        files = self._files
        addresses: dict[int, HostPort] = {}
        # The address that brokers use may be a proxy, which accepts connections in any case.
        for one in sorted(self._given.properties, key=lambda one: one.is_controller):
            addresses.update(one.voter_addresses or {})
        ids = sorted({*self.paths, *addresses, *(one for one in files if one is not None)})
        return tuple(self._controller(one, files.get(one), addresses.get(one)) for one in ids)

    def _candidates(self) -> list[Path]:
        """Folders given, and those that controllers' files name, if they are theirs."""
        found = []
        for one in self._given.properties:
            if not one.is_controller:
                continue
            folder = one.log_dir
            # A file of another machine may name a folder that is another node's here.
            meta = one.metas.get(folder, {})
            if folder and meta and meta.get("node.id") == str(one.node_id):
                found.append(Path(folder))
        self._named = {str(one) for one in found}
        return list(dict.fromkeys([*found, *(_outer(one) for one in self._given.log_dirs)]))

    def _controller(
        self, node_id: int, file: Properties | None, address: HostPort | None
    ) -> ControllerSeen:
        name = f"controller {node_id}" if file is None else file.name
        status, unread = (None, "") if file is None else _status(file, address)
        folder = self.paths.get(node_id)
        named = folder is None or str(folder) in self._named
        held, pid = NOT_HERE if folder is None else folder_holder.holder(folder)
        if held:
            self._held.add(node_id)
        answer, why = ask(address)
        # A copy may be at the same path as the folder on the controller's machine.
        own = node_id in self._held or (named and address is not None and is_here(address))
        if named and held is False and not own and answer in _SILENT:
            why = f"{why}; {folder} may be a copy, as {elsewhere(address)}"
        running = runs(held, answer, own=own)
        if status is not None and status.get("node_id") == node_id:
            running = True
        else:
            status = None
        if unread and running is False:
            running, why = None, unread  # somebody answers there
        # A folder that the running controller does not hold is a copy, older than its log.
        copied = bool(running) and (held is False or (held is None and not named))
        return ControllerSeen(
            node_id,
            name,
            running,
            address,
            pid,
            status,
            folder="" if copied else str(folder or ""),
            own=own,
            copied=str(folder or "") if copied else "",
            file="" if file is None else file.name,
            log_dir="" if file is None else file.log_dir,
            why=why,
            unread=unread,
        )

    def _broker_folders(self) -> list[FolderSeen]:
        found = []
        for one in self._given.properties:
            if one.is_controller:
                continue
            for folder, meta in one.metas.items():
                meta_id = meta.get("broker.id") or meta.get("node.id")
                others = [x for x in self._given.properties if folder in x.metas]
                if meta_id == str(one.node_id) or len(others) == 1:
                    found.append(FolderSeen(folder, meta, one.node_id))
        for path in self._given.broker_folders:
            if not path.is_dir():
                raise inputs.PreflightError(f"{path}: no such folder")
            found.append(FolderSeen(str(path), _meta(path)))
        return found

    def _image(self, seen: Situation) -> tuple[Image | None, str]:
        """What the newest log holds; None and why, if none can be read."""
        usable = [one for one in seen.survey.folders if one.epochs]
        if not usable:
            return None, "no folder of a controller is on this machine"
        newest = max(usable, key=lambda one: (one.epochs[-1][0], one.end_offset))
        if (why := _other_log(newest, seen.stage.mark)) and phase_of(seen) in {
            RollbackPhase.DUAL_WRITE,
            RollbackPhase.FINALISED,
        }:
            return None, why
        path = Path(newest.name)
        try:
            _, raft = folders.open_log(path)
            offset = seen.stage.mark.kraft_metadata_offset
            written = offset + 1 if raft.epoch_at(offset) is not None else 0
            return folders.committed_image(raft, path, written), ""
        except folders.FolderUnreadableError as error:
            return None, str(error)


def _other_log(folder: ControllerFolder, mark: MigrationZnode) -> str:
    offset, epoch = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
    if offset < folder.start_offset or folder.epoch_at(offset) == epoch:
        return ""
    return f"the log in {folder.name} is not the one that ZooKeeper follows"


def _modes(seen: Situation, image: Image | None) -> Mapping[int, bool] | None:
    leader = seen.leader
    if leader is not None and leader.status is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return {int(one["id"]): one["kind"] == "kraft" for one in leader.status["brokers"]}
    if image is None:
        return None
    return {one: not each.is_migrating_zk_broker for one, each in image.brokers.items()}


def _differences(dump: Mapping[str, Any], image: Image) -> list[Difference]:
    survey: Survey = of_dump(dump)
    tree = Tree()
    tree.nodes = {path: TreeNode(one.data, one.version) for path, one in survey.nodes.items()}
    lists = {path: survey.children(path) for path in survey.nodes}
    tree.lists = {path: names for path, names in lists.items() if names}
    return [*differences(tree, image, None), *ahead(tree, image)]


def _meta(folder: Path) -> dict[str, str]:
    path = folder / layout.META_PROPERTIES
    try:
        return parse(text_of(path))
    except OSError as error:
        raise inputs.PreflightError(sentence(error)) from error
    except ValueError as error:
        raise inputs.PreflightError(f"{path}: {error}") from error


def _outer(path: Path) -> Path:
    return path.parent if path.name == layout.FOLDER else path


def _status(file: Properties, address: HostPort | None) -> tuple[dict[str, Any] | None, str]:
    """``/status`` of a controller; None if it does not answer, or is no kraft-bridge.

    Of another release it is not read either: then the second says so.
    """
    url = url_of_status(file, address)
    if url is None:
        return None, ""
    try:
        return controller_status(url), ""
    except OtherReleaseError as error:
        return None, f"{url}/status: {error}"
    except (OSError, ValueError):
        return None, ""


class _LagRead(msgspec.Struct):
    records_without_no_ops: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _MigrationRead(msgspec.Struct):
    lag: _LagRead | None = None
    migration_state: str | None = None
    poisoned: list[dict[str, Any]] | None = None
    left_out: list[dict[str, Any]] | None = None


class _FinalisationRead(msgspec.Struct):
    state: str | None = None


class StatusRead(msgspec.Struct):
    """The form of what is read here of ``/status``, whichever of it is there."""

    node_id: int | None = None
    cluster_id: str | None = None
    active: bool = False
    leader_epoch: int | None = None
    migration: _MigrationRead | None = None
    finalisation: _FinalisationRead | None = None


def controller_status(url: str) -> dict[str, Any]:
    """``/status`` as far as it is read here; empty if it is a broker's.

    Raises:
        OSError, ValueError: as :func:`status_of`.
        OtherReleaseError: what is read has another form.
    """
    found = status_of(url)
    if found["schema"] != SCHEMAS[0]:
        return {}
    try:
        msgspec.convert(found, StatusRead)
    except msgspec.ValidationError as error:
        raise OtherReleaseError(misread(found)) from error
    return found


def url_of_status(file: Properties, address: HostPort | None) -> str | None:
    """Where a controller shows its status; None if neither its file nor its folder says."""
    port = file.get(METRICS_PORT)
    where = address or next(iter(file.controller_addresses), None)
    if where is None or not port.isdigit() or port == "0":
        folder = file.log_dir
        if file.metas.get(folder, {}).get("node.id") != str(file.node_id):
            return None
        try:
            return status_url.read(Path(folder))
        except (OSError, ValueError):
            return None
    return f"http://{HostPort(where.host or '127.0.0.1', int(port))}"


def alive(one: ControllerSeen) -> tuple[bool | None, str]:
    """Whether a controller runs now, by the rule by which it was looked at, and the reason.

    The address of one whose folder is seen to be held is not asked.
    """
    held = folder_holder.holder(Path(one.folder)).held if one.folder else None
    if held:
        return True, f"{one.folder} is locked"
    answer, why = ask(one.address)
    return runs(held, answer, own=one.own), why
