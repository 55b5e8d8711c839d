"""A whole ZooKeeper tree as one JSON document, for people, for tests and for comparison.

Read by kazoo and not decoded: the output is the data of the znodes, without secrets.
"""

import base64
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from emulator.servers.waiting import PATIENCE_S


class UnreadableError(Exception):
    """ZooKeeper does not answer, or not as it should; the text says which and why."""


_AT_ONCE: Final = 32
"""Znodes that are asked for together: a server far away answers them in one round trip."""
REDACTED = "<redacted>"

_SCRAM = re.compile("SCRAM", re.IGNORECASE)
# Below any chroot: a tree may be read from above it.
_PLACES = re.compile(r"(?:/.*)?/(config/users|config/brokers|delegation_token/tokens)/")
# Kafka's configs of type PASSWORD, under any listener prefix, and whatever else sounds like one.
_SECRET_CONFIG = re.compile(
    r"(password|secret|secret\.key|jaas\.config|keystore\.key|certificate\.chain"
    r"|truststore\.certificates|token|credential)$"
)


def is_secret_config(key: str) -> bool:
    """Whether the value of a config with this key is not to be shown."""
    return _SECRET_CONFIG.search(key) is not None


def _secret(place: str, key: str) -> bool:
    if place == "config/users" and _SCRAM.search(key):
        return True
    if place == "delegation_token/tokens":
        return key.lower() == "hmac"
    return is_secret_config(key)


class _Redacted:
    """Decodes JSON of one place and counts what it leaves out, also of keys given twice."""

    def __init__(self, place: str) -> None:
        self.count = 0
        self._place = place

    def members(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        """One object."""
        secret = [key for key, _ in pairs if _secret(self._place, key)]
        self.count += len(secret)
        return {**dict(pairs), **dict.fromkeys(secret, REDACTED)}


def redact(path: str, data: bytes) -> bytes:
    """Data of a znode without secrets: SCRAM credentials, passwords, token HMACs.

    Where nothing is secret the bytes come back as they are; else the JSON is written anew, keys
    in their order. Data under a place for secrets that is no JSON, or not of Kafka's form, is
    replaced as a whole.

    >>> redact("/config/users/a", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}')
    b'{"version":1,"config":{"SCRAM-SHA-256":"<redacted>"}}'
    """
    found = _PLACES.match(path)
    if not data or found is None:
        return data
    place = _Redacted(found[1])
    try:
        shown = json.loads(data, object_pairs_hook=place.members)
    except (ValueError, RecursionError):
        return REDACTED.encode()
    if not _is_kafkas(shown):
        return REDACTED.encode()
    return json.dumps(shown, separators=(",", ":")).encode() if place.count else data


def _is_kafkas(value: object) -> bool:
    """Whether an object has texts and numbers where Kafka has them; else a secret may be anywhere.

    >>> _is_kafkas({"version": 1, "config": {"a": "b"}}), _is_kafkas({"version": "b"})
    (True, False)
    """
    if not isinstance(value, dict) or not isinstance(value.get("version", 1), int):
        return False
    config = value.get("config", {})
    return isinstance(config, dict) and all(isinstance(one, str) for one in config.values())


def _acl(acl: Any, *, secrets: bool) -> list[object]:
    name = acl.id.id
    if not secrets and acl.id.scheme == "digest":
        name = f"{name.partition(':')[0]}:{REDACTED}"
    return [acl.perms, acl.id.scheme, name]


def _node(path: str, data: bytes | None, stat: Any, acls: Any, *, secrets: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "version": stat.version,
        "cversion": stat.cversion,
        "czxid": stat.czxid,
        "mzxid": stat.mzxid,
        "pzxid": stat.pzxid,
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "ephemeral": stat.ephemeralOwner != 0,
        "ephemeralOwner": stat.ephemeralOwner,
        "acl": [_acl(acl, secrets=secrets) for acl in acls],
    }
    if data is None:
        entry["null"] = True
        return entry
    shown = data if secrets else redact(path, data)
    try:
        entry["text"] = shown.decode()
    except UnicodeDecodeError:
        entry["b64"] = base64.b64encode(shown).decode()
    return entry


def _read(client: KazooClient, paths: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Of each znode its data, its access rules and its children; several are asked for at a time.

    A call stands for what cannot be read: ``get()`` of it raises.
    """
    asked: deque[tuple[str, list[Any]]] = deque()
    for path in paths:
        asks = client.get_async, client.get_acls_async, client.get_children_async
        asked.append((path, [ask(path) for ask in asks]))
        if len(asked) == _AT_ONCE:
            yield asked.popleft()
    yield from asked


def _walk(
    client: KazooClient, tops: Sequence[str], closed: list[str] | None, *, secrets: bool
) -> dict[str, dict[str, Any]]:
    """The znodes at these paths and below, parents first, each level as a whole."""
    found: dict[str, dict[str, Any]] = {}
    level = tops
    while level:
        below: list[str] = []
        for path, calls in _read(client, level):
            try:
                (data, stat), (acls, _), children = [one.get() for one in calls]
            except NoNodeError:  # deleted since its parent was listed
                continue
            except NoAuthError as error:
                if closed is None:
                    why = f"{path} may not be read with this login (NoAuth)"
                    raise UnreadableError(why) from error
                closed.append(path)
                continue
            found[path] = _node(path, data, stat, acls, secrets=secrets)
            below += [f"{path}/{child}" for child in children]
        level = below
    return found


def dump(
    hosts: str,
    *,
    with_secrets: bool = False,
    note: str | None = None,
    timeout_s: float = PATIENCE_S,
    connect: Callable[..., KazooClient] = KazooClient,
    closed: list[str] | None = None,
) -> dict[str, Any]:
    """Read a whole tree, but for ZooKeeper's own ``/zookeeper``.

    Args:
        hosts: connect string; with a chroot, paths are below it.
        with_secrets: show SCRAM credentials, passwords and digests as they are.
        note: kept in the document.
        timeout_s: to connect; a verb waits less long than a run that knows its server.
        connect: makes a client that is not started yet; of a secured ensemble one that logs in.
        closed: takes the paths that may not be read, which are left out with what is below them;
            None: one of them is an error.

    Returns:
        ``note``, ``time`` (seconds), ``count``, and ``nodes``: path -> ``text`` (UTF-8) or ``b64``
        or ``null`` (created without data), version, cversion, zxids, ctime and mtime (ms),
        ephemeral, ephemeralOwner, acl as ``[perms, scheme, id]``. Not one point in time: a tree
        that is written to meanwhile is seen in part.

    Raises:
        UnreadableError: ZooKeeper cannot be reached, or not be read.
    """
    try:
        client = connect(hosts)
        try:
            client.start(timeout=timeout_s)
            client.sync("/")  # a server that lags behind would show an older tree
            tops = [f"/{one}" for one in client.get_children("/") if one != "zookeeper"]
            found = _walk(client, tops, closed, secrets=with_secrets)
            nodes = {path: found[path] for path in sorted(found, key=lambda one: one.split("/"))}
        finally:
            client.stop()
            client.close()
    except UnreadableError as error:
        raise UnreadableError(f"ZooKeeper at {hosts}: {error}") from error
    except NoNodeError as error:
        chroot = "/" + hosts.partition("/")[2]
        raise UnreadableError(f"ZooKeeper at {hosts}: there is no chroot {chroot}") from error
    except (KazooException, KazooTimeoutError, ValueError) as error:
        raise UnreadableError(
            f"ZooKeeper at {hosts}: {_once(hosts, str(error)) or type(error).__name__}"
        ) from error
    return {"note": note, "time": time.time(), "count": len(nodes), "nodes": nodes}


def versions(tree: Mapping[str, Any]) -> dict[str, int]:
    """Path -> version of the data of a dumped tree."""
    return {path: int(node["version"]) for path, node in tree["nodes"].items()}


def contents(tree: Mapping[str, Any]) -> dict[str, bytes | None]:
    """Path -> data of a dumped tree; None is a znode created without data."""
    found: dict[str, bytes | None] = {}
    for path, node in tree["nodes"].items():
        if node.get("null"):
            found[path] = None
        elif "text" in node:
            found[path] = node["text"].encode()
        else:
            found[path] = base64.b64decode(node["b64"])
    return found


def _once(hosts: str, why: str) -> str:
    """An error without the address that its sentence begins with."""
    return why.removeprefix(f"{hosts.partition('/')[0]}: ")
