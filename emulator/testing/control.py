"""Control of a cluster over HTTP, for tests in any language: what :class:`Cluster` does, by POST.

Only of 127.0.0.1, and only with the token: a page in a browser, or another user of the machine, can
do nothing. Each answer is a JSON object: the state of the cluster, or ``error``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import BoundedSemaphore
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from emulator.io import http
from emulator.io.http import HttpRequest, Page
from emulator.io.operator_route import BearerToken
from emulator.net.faults.fault import ScriptError, read_json
from emulator.testing.cluster import Cluster, UnknownNodeError
from emulator.testing.local_node import HOST, ClusterError

NOT_HERE: Final = "the header Host must be 127.0.0.1 or localhost, with the port of the control"
OPEN_MAX: Final = 256
"""Connections at a time whose requests are not whole, or whose answers are not read."""
WAITING_MAX: Final = 100
"""Requests that wait for the one under way; one more is refused."""


class BadRequestError(Exception):
    """The body of a request is not what its path takes; the text says why."""


class ControlOperation(NamedTuple):
    """What a path does. ``needs`` and ``takes``: members of the body and their types."""

    run: Callable[..., object]
    needs: Mapping[str, type] = MappingProxyType({})
    takes: Mapping[str, type] = MappingProxyType({})


_NODE: Final = MappingProxyType({"node": int})


def _stop(cluster: Cluster, node: int, *, at_once: bool = False) -> None:
    cluster.stop(node, at_once=at_once)


def _resign(cluster: Cluster, node: int | None = None) -> None:
    cluster.resign(node)


def _move_leader(cluster: Cluster, topic: str, partition: int, node: int) -> None:
    cluster.move_leader(topic, partition, node)


def _add_faults(cluster: Cluster, fault: list[Any], *, controllers: bool = False) -> None:
    add = cluster.add_controller_faults if controllers else cluster.add_faults
    add(*read_json(json.dumps({"fault": fault})))


STATUS: Final = "/status"
OPERATIONS: Final[Mapping[str, ControlOperation]] = MappingProxyType(
    {
        STATUS: ControlOperation(lambda _cluster: None),
        "/stop": ControlOperation(_stop, _NODE, MappingProxyType({"at_once": bool})),
        "/start": ControlOperation(lambda cluster, node: cluster.start(node), _NODE),
        "/resign": ControlOperation(_resign, takes=_NODE),
        "/move-controller": ControlOperation(
            lambda cluster, node: cluster.move_controller(node), _NODE
        ),
        "/move-leader": ControlOperation(
            _move_leader, MappingProxyType({"topic": str, "partition": int, "node": int})
        ),
        "/fence": ControlOperation(lambda cluster, node: cluster.fence(node), _NODE),
        "/unfence": ControlOperation(lambda cluster, node: cluster.unfence(node), _NODE),
        "/add-faults": ControlOperation(
            _add_faults, MappingProxyType({"fault": list}), MappingProxyType({"controllers": bool})
        ),
        "/clear-faults": ControlOperation(lambda cluster: cluster.clear_faults()),
    }
)
"""Path -> what a POST does."""


def state(cluster: Cluster) -> dict[str, Any]:
    """What every answer shows of a cluster."""
    nodes = cluster.nodes
    active = [one["id"] for one in nodes if one.get("active")]
    return {
        "cluster_id": cluster.cluster_id,
        "bootstrap": cluster.bootstrap if any(one["role"] == "broker" for one in nodes) else "",
        "controllers": cluster.controllers,
        "active_controller": next(iter(active), None),
        "nodes": nodes,
        "faults": cluster.faults,
    }


class ControlPages:
    """Answers the requests; :meth:`close` lets none begin any more.

    Args:
        cluster: that is controlled.
        token: what each request carries.
    """

    def __init__(self, cluster: Cluster, token: BearerToken) -> None:
        self._cluster = cluster
        self._token = token
        self._hosts: frozenset[str] = frozenset()
        # One operation at a time, and it may take long: whoever looks does not wait for it.
        self._workers = {
            looks: ThreadPoolExecutor(1, f"kraft-bridge {'looks' if looks else 'control'}")
            for looks in (False, True)
        }
        self._places = {looks: BoundedSemaphore(WAITING_MAX) for looks in self._workers}
        self.actions: http.Actions = {path: self._page(path) for path in OPERATIONS}

    def bound(self, port: int) -> None:
        """The port is known: a request must have been sent to it by these names."""
        self._hosts = frozenset(f"{name}:{port}" for name in (HOST, "localhost"))

    def close(self) -> None:
        """Begin nothing more; what is under way goes on."""
        for worker in self._workers.values():
            worker.shutdown(wait=False, cancel_futures=True)

    def _page(self, path: str) -> http.Action:
        return lambda asked: self._refusal(asked) or self._begin(path, asked)

    def _refusal(self, asked: HttpRequest) -> Page | None:
        if asked.headers.get("host", "") not in self._hosts or not asked.local:
            return problem(403, NOT_HERE)
        if asked.method != "POST":
            return problem(405, "only POST")
        if not self._token.carried_by(asked):
            return problem(401, "needs the header Authorization: Bearer TOKEN, with the token")
        return None

    def _begin(self, path: str, asked: HttpRequest) -> Page | Future[Page]:
        operation, looks = OPERATIONS[path], path == STATUS
        try:
            members = members_of(asked.body, operation)
        except BadRequestError as error:
            return problem(400, f"{path}: {error}")
        if not self._places[looks].acquire(blocking=False):
            return problem(503, f"{WAITING_MAX} requests are waiting; ask again")
        return self._workers[looks].submit(self._work, looks, operation, members)

    def _work(self, looks: bool, operation: ControlOperation, members: Mapping[str, Any]) -> Page:
        self._places[looks].release()
        try:
            operation.run(self._cluster, **members)
            return _json(200, state(self._cluster))
        except UnknownNodeError as error:
            return problem(404, str(error))
        except (ClusterError, ScriptError) as error:
            return problem(400 if isinstance(error, ScriptError) else 409, str(error))
        except Exception as error:
            logging.getLogger("kraft_bridge").exception("a control request failed")
            return problem(500, f"a fault of kraft-bridge: {type(error).__name__}: {error}")


def members_of(body: bytes, operation: ControlOperation) -> dict[str, Any]:
    """The members of a body, checked; an empty body has none.

    Raises:
        BadRequestError: it is no JSON object, or has the wrong members.
    """
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise BadRequestError("the body is not JSON") from None
    known = {**operation.needs, **operation.takes}
    if not isinstance(found, dict):
        raise BadRequestError("the body must be a JSON object")
    if missing := operation.needs.keys() - found.keys():
        raise BadRequestError(f"missing: {', '.join(sorted(missing))}")
    if unknown := found.keys() - known.keys():
        raise BadRequestError(f"unknown: {', '.join(sorted(unknown))}")
    for name, value in found.items():
        # Not by isinstance: true is no number of a node.
        if type(value) is not known[name]:
            raise BadRequestError(f"{name} must be {_TYPES[known[name]]}")
    return found


_TYPES: Final = {int: "a whole number", str: "a text", bool: "true or false", list: "an array"}


def problem(status: int, text: str) -> Page:
    """An error, as every path answers it."""
    return _json(status, {"error": NOT_HERE if status == 403 else text})


def _json(status: int, value: Mapping[str, Any]) -> Page:
    return Page(status, "application/json", json.dumps(value).encode() + b"\n")


@asynccontextmanager
async def controlled(cluster: Cluster, token: BearerToken, port: int) -> AsyncIterator[str]:
    """Serve the control of a cluster, on 127.0.0.1 alone; yields its URL.

    Args:
        cluster: that is controlled.
        token: what each request carries.
        port: 0: any free one.

    Raises:
        OSError: the port cannot be bound.
    """
    pages = ControlPages(cluster, token)
    try:
        server, bound = await http.serve(
            {}, HOST, port, pages.actions, problem=problem, open_max=OPEN_MAX
        )
        try:
            pages.bound(bound)
            yield f"http://{HOST}:{bound}"
        finally:
            server.close()
    finally:
        pages.close()
