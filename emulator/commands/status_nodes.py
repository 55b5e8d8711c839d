"""Which nodes ``kraft-bridge status`` asks, what each answers, and which answer is shown.

A controller's file says where its own status is: in ``status.url`` of its folder, else at its
``kraftbridge.metrics.port``. Other voters are asked at the same port. What answers at an address
may be another node, as a folder may be a copy and a port be in use: the node id in the answer, and
the cluster id of the folder, must be those expected.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from emulator.commands.asking import page_of, unanswered, without_login
from emulator.config.listeners import (
    METRICS_PORT,
    USUAL,
    HostPort,
    host_port,
    metrics_port,
    url_of,
)
from emulator.io import status_url

if TYPE_CHECKING:
    from emulator.operations.preflight.node_file import Properties

Fetch: TypeAlias = Callable[[str], str]
"""Asks an address for the JSON text of ``/status``; raises OSError or ValueError."""
DEFAULT_URL: Final = url_of(USUAL.host, USUAL.port)


class NodesError(ValueError):
    """The files do not say whom to ask."""


class UnreachedError(OSError):
    """None of several nodes answers; the text names each, with the reason."""


@dataclass(frozen=True, slots=True)
class AskedNode:
    """A node to ask.

    ``urls``: tried in this order. ``node_id``, ``cluster_id``: who must answer; None and empty:
    anyone. ``why``: what the reason of no answer is followed by. ``folder``: of the node, whose
    ``status.url`` is tried first, as it is at that moment; None: not known. ``file``: its
    properties; empty: not given.
    """

    name: str
    urls: tuple[str, ...]
    node_id: int | None = None
    cluster_id: str = ""
    why: str = ""
    folder: Path | None = None
    file: str = field(default="", compare=False)

    def noted(self) -> tuple[list[str], str]:
        """The address in the folder, and why there is none; a restart may change it."""
        if self.folder is None:
            return [], ""
        path = self.folder / status_url.STATUS_URL
        try:
            return [status_url.read(self.folder)], ""
        except FileNotFoundError:
            return [], f"{self.folder} has no {path.name}, as a running controller's has"
        except OSError as error:
            return [], f"{path}: {error.strerror or error}"
        except ValueError:
            return [], f"{path} is no text"


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a node shows: the text, and what is in it."""

    url: str
    body: str
    found: Mapping[str, Any]

    @property
    def leads(self) -> bool:
        """Whether it is a controller that leads the metadata log."""
        return "leader_id" in self.found and self.found["leader_id"] == self.found["node_id"]

    @property
    def epoch(self) -> int:
        """Its leader epoch; -1 if it has none."""
        epoch = self.found.get("leader_epoch", -1)
        return epoch if isinstance(epoch, int) else -1


@dataclass(frozen=True, slots=True)
class Look:
    """All answers of one moment, in the order of the targets, and why others gave none."""

    answers: tuple[NodeAnswer, ...]
    unreached: tuple[str, ...] = ()

    @property
    def shown(self) -> NodeAnswer | None:
        """The answer of the newest leader, else of the node with the newest epoch."""
        return max(self.answers, key=lambda one: (one.leads, one.epoch), default=None)


def of_urls(urls: Sequence[str]) -> list[AskedNode]:
    """The nodes at these addresses."""
    return [AskedNode(without_login(page_of(url, "status")), (url,)) for url in urls]


def of_files(paths: Iterable[Path]) -> list[AskedNode]:
    """The controllers of these files, and the other voters that they name; brokers' are left out.

    Raises:
        NodesError: a file cannot be read, or none is of a controller.
    """
    from emulator.commands.preflight import inputs

    try:
        files = [inputs.read_properties(path) for path in paths]
    except inputs.PreflightError as error:
        raise NodesError(str(error)) from error
    controllers = [one for one in files if one.is_controller]
    if not controllers:
        names = ", ".join(one.name for one in files)
        raise NodesError(f"{names}: not of a controller, which has process.roles=controller")
    found: dict[int, AskedNode] = {}
    for one in controllers:
        own = _own(one)
        assert own.node_id is not None
        known = found.setdefault(own.node_id, own)
        if known is not own and known != own:
            raise NodesError(f"{one.name}: node.id={own.node_id} is in another file too")
    for one in controllers:
        for node_id, where in sorted((one.voter_addresses or {}).items()):
            found.setdefault(node_id, _other(node_id, where, _port(one)))
    return list(found.values())


def _port(file: Properties) -> int | None:
    """The port that the file names; None: it names none."""
    if METRICS_PORT not in file.values:
        return None
    try:
        return metrics_port(file.get(METRICS_PORT))
    except ValueError as error:
        raise NodesError(f"{file.name}: {METRICS_PORT}: {error}") from error


def _own(file: Properties) -> AskedNode:
    node_id, port = file.node_id, _port(file)
    if node_id is None:
        raise NodesError(f"{file.name}: node.id is not a number")
    folder, name = file.log_dir, f"controller {node_id}"
    cluster_id = file.metas.get(folder, {}).get("cluster.id", "")
    if port is not None and port < 0:
        why = f"{METRICS_PORT} is -1 in {file.name}: it serves no status"
        return AskedNode(name, (), node_id, cluster_id, why, file=file.name)
    urls = [DEFAULT_URL] if port is None else []
    if port is not None and port > 0:
        urls = [url_of(host, port) for host in _hosts(file, node_id)]
    return AskedNode(name, tuple(urls), node_id, cluster_id, folder=Path(folder), file=file.name)


def _hosts(file: Properties, node_id: int) -> list[str]:
    """Where a controller listens, which may be everywhere, and where other nodes reach it."""
    names = file.names("controller.listener.names")[:1]
    hosts = [one.host for one in file.listeners() if one.name in names]
    voter = (file.voter_addresses or {}).get(node_id)
    return [*hosts, *([voter.host] if voter else [])]


def _other(node_id: int, where: HostPort, port: int | None) -> AskedNode:
    """A voter whose file was not given: at its host, with the port of the file that names it."""
    hint = "" if port is not None else f"without {METRICS_PORT} it is asked on its own machine only"
    url = url_of(where.host, port if port is not None and port > 0 else USUAL.port)
    return AskedNode(f"controller {node_id}", (url,), node_id, why=hint)


def look(targets: Sequence[AskedNode], fetch: Fetch) -> Look:
    """Ask all of them.

    Raises:
        OSError, ValueError: the only one given by its address does not answer.
    """
    if len(targets) == 1 and targets[0].node_id is None:
        (url,) = targets[0].urls
        return Look((_answer(url, fetch),))
    results: queue.SimpleQueue[tuple[int, NodeAnswer | str | BaseException]] = queue.SimpleQueue()

    def ask(at: int, target: AskedNode) -> None:
        try:
            results.put((at, _of_target(target, fetch)))
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            results.put((at, error))

    for each in enumerate(targets):
        threading.Thread(target=ask, args=each, daemon=True).start()
    found = dict(results.get() for _ in targets)
    answers: dict[object, NodeAnswer] = {}
    unreached = []
    for _, one in sorted(found.items(), key=lambda each: each[0]):
        if isinstance(one, BaseException):
            raise one
        if isinstance(one, str):
            unreached.append(one)
        else:
            answers.setdefault(one.found.get("node_id", one.url), one)
    return Look(tuple(answers.values()), tuple(unreached))


def _of_target(target: AskedNode, fetch: Fetch) -> NodeAnswer | str:
    """Its answer, or a sentence with the reason why there is none."""
    whys: dict[str, None] = {}
    noted, unknown = target.noted()
    for url in dict.fromkeys((*noted, *target.urls)):
        try:
            answer = _answer(url, fetch)
        except (OSError, ValueError) as error:
            whys[str(error) if target.node_id is None else f"{without_login(url)}: {error}"] = None
            continue
        if not (other := _other_node(target, answer.found)):
            return answer
        whys[f"{without_login(url)}: {other}"] = None
    reasons = [*whys, *filter(None, (unknown, target.why))]
    return f"{target.name} is not reached: {'; '.join(reasons)}"


def _answer(url: str, fetch: Fetch) -> NodeAnswer:
    body = fetch(url)
    return NodeAnswer(url, body, msgspec.json.decode(body))


def _other_node(target: AskedNode, found: Mapping[str, Any]) -> str:
    """Who answers instead; empty if it is the node that is meant."""
    role = "broker" if found.get("role") == "broker" else "controller"
    if target.node_id is not None and (found.get("node_id"), role) != (
        target.node_id,
        "controller",
    ):
        return f"{role} {found.get('node_id')} answers there"
    if target.cluster_id and found.get("cluster_id") not in {target.cluster_id, None}:
        return f"a controller of another cluster, {found['cluster_id']}, answers there"
    return ""


class AskedNodes:
    """The nodes that a command line names.

    Args:
        targets: at least one.
        fetch: asks an address.
    """

    def __init__(self, targets: Sequence[AskedNode], fetch: Fetch) -> None:
        self._targets = targets
        self._fetch = fetch
        self._voters: list[AskedNode] = []
        self.last = Look(())
        """What came of the last look."""
        only = targets[0] if len(targets) == 1 else None
        self.name = f"{only.name}: " if only is not None and only.node_id is None else ""
        """What the reason of no answer begins with; empty if it names the nodes itself."""

    @property
    def unreached(self) -> tuple[str, ...]:
        """Who did not answer in the last look, and why."""
        return self.last.unreached

    @property
    def files(self) -> dict[int, str]:
        """The files that were given, by node id."""
        named = ((one.node_id, one.file) for one in self._targets)
        return {node_id: file for node_id, file in named if node_id is not None and file}

    def option(self, shown: NodeAnswer) -> str:
        """The options that ask these nodes again: a step may end the one that is shown."""
        files = "".join(f" -c {quote(one)}" for one in self.files.values())
        urls = [one.urls[0] for one in self._targets if one.node_id is None]
        if not files and len(urls) == 1:
            return url_option(shown.url)
        return files + "".join(f" --url {quote(without_login(one))}" for one in urls)

    def once(self) -> NodeAnswer:
        """Ask all of them; returns what is shown.

        Raises:
            OSError, ValueError: nobody answers.
        """
        self.last = look(self._targets, self._fetch)
        if self.last.shown is None:
            raise UnreachedError("; ".join(self.last.unreached))
        return self.last.shown

    def folder_of(self, shown: NodeAnswer) -> Path | None:
        """The folder of the node that is shown; None if its file was not given."""
        node_id = shown.found.get("node_id")
        folders = (one.folder for one in self._targets if one.node_id == node_id)
        return next(filter(None, folders), None)

    def leading(self) -> NodeAnswer:
        """As :meth:`once`, and follows the leader: to any voter that an earlier answer has named.

        Raises:
            OSError, ValueError: nobody answers.
        """
        try:
            shown = self.once()
        except (OSError, ValueError):
            asked = {one.urls for one in self._targets}
            others = [one for one in self._voters if one.urls not in asked]
            found = look(others, self._fetch).shown if others else None
            if found is None:
                raise
            shown = found
        with contextlib.suppress(KeyError, TypeError, ValueError):
            self._voters = _voters(shown)
        leader = None if shown.leads else self._leader(shown)
        return shown if leader is None else leader

    def failed(self, error: Exception) -> str:
        """What is printed if nobody answers."""
        if isinstance(error, UnreachedError):
            verdict = "NOT REACHED: none of these controllers answers"
            step = (
                "next: start each controller that does not run, on its machine; after kraft-bridge "
                "rollback leave them stopped"
            )
            files = [quote(one.file) for one in self._targets if one.file] or ["FILE"]
            typed = [f"type: kraft-bridge controller -c {one}" for one in files]
            return "\n".join([verdict, step, *typed, *self.last.unreached])
        return unanswered(self.name.removesuffix(": "), error)

    def leader_url(self, shown: NodeAnswer) -> str:
        """Where the controller that leads shows its status, if it is found; else empty.

        A follower shows the address of its controller listener alone. So it is asked at that host
        and the follower's own port, and must be the leader.
        """
        leader = self._leader(shown)
        return "" if leader is None else leader.url

    def _leader(self, shown: NodeAnswer) -> NodeAnswer | None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            for voter in _voters(shown):
                if voter.node_id == shown.found["leader_id"]:
                    found = _of_target(voter, self._fetch)
                    return found if isinstance(found, NodeAnswer) else None
        return None


def _voters(shown: NodeAnswer) -> list[AskedNode]:
    """The voters that a controller shows: itself, and the others at its own port."""
    port = urllib.parse.urlsplit(shown.url).port or USUAL.port
    own, cluster_id = shown.found["node_id"], shown.found["cluster_id"]
    return [
        AskedNode(
            f"controller {one['id']}",
            (shown.url if one["id"] == own else url_of(host_port(one["endpoint"]).host, port),),
            one["id"],
            cluster_id,
        )
        for one in shown.found["quorum"]["voters"]
    ]


def url_option(url: str) -> str:
    """The option by which a node is asked, without a login in its address; empty: the default.

    >>> url_option("http://me:secret@h:1"), url_option(DEFAULT_URL)
    (' --url http://h:1', '')
    """
    return "" if url == DEFAULT_URL else f" --url {quote(without_login(url))}"
