"""What a running cluster has: its id in ZooKeeper, the protocol version of its brokers.

Nothing is written. ZooKeeper is asked with the login of the properties, a broker at the listener
and with the login that the controller has for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from emulator.commands.configuration import text_of
from emulator.commands.format.deciding import IBP, ReadValues
from emulator.commands.zk import client as zk_client
from emulator.config import properties
from emulator.config.load import Config
from emulator.config.zookeeper import ZooKeeperSecurity, connect_string
from emulator.io.kafka_client import Connection, Login, LoginError, TooOldError
from emulator.io.printable import printable, sentence
from emulator.io.reach import why_unreachable
from emulator.io.tls import TlsError
from emulator.metadata.brokers import Endpoint
from emulator.znodes import brokers, cluster, own
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import number_of
from wire import messages as m
from wire.errors import named

BROKER: Final = 4
"""The resource type of a broker's configs."""
AT_ONCE: Final = 32
"""So many brokers are asked at a time."""
SHOWN_MAX: Final = 200
"""Characters of a text of others."""


@dataclass(frozen=True, slots=True)
class ZooKeeperAnswer:
    """``brokers``: id -> znode. ``why``: why ZooKeeper was not read.

    ``strange``: children of ``/brokers/ids`` that are no ids of brokers. ``rolled_back``: whether
    a rollback has marked ``/kraft_bridge``, which is still there.
    """

    hosts: str
    cluster: bytes | None = None
    brokers: Mapping[str, bytes] = field(default_factory=dict)
    why: str = ""
    strange: Sequence[str] = ()
    rolled_back: bool = False

    @property
    def cluster_id(self) -> ReadValues:
        """The id, or why there is none."""
        znode = f"{cluster.PATH} of ZooKeeper at {self.hosts}"
        if self.why:
            return ReadValues(whys={f"ZooKeeper at {self.hosts}": self.why})
        if self.cluster is None:
            why = "no such znode: another ensemble, or the chroot is wrong"
            return ReadValues(whys={znode: why})
        try:
            return ReadValues({znode: cluster.parse(self.cluster)})
        except ZnodeError as error:
            return ReadValues(whys={znode: shown(error.why)})


def zookeeper(hosts: str, security: ZooKeeperSecurity, patience_s: float) -> ZooKeeperAnswer:
    """Read ``/cluster/id``, ``/brokers/ids`` and ``/kraft_bridge``.

    Args:
        hosts: connect string.
        security: the login.
        patience_s: for all of it.
    """
    deadline = time.monotonic() + patience_s
    try:
        servers, _ = connect_string(hosts)
        if why := why_unreachable(servers, patience_s):
            return ZooKeeperAnswer(hosts, why=zk_client.without_address(hosts, why))
        client = zk_client.client(hosts, security, timeout_s=patience_s, read_only=True)
    except (TlsError, ValueError) as error:
        return ZooKeeperAnswer(hosts, why=str(error))
    try:
        client.start(timeout=max(0.1, deadline - time.monotonic()))
        return _read(client, hosts, deadline)
    except NoAuthError:
        return ZooKeeperAnswer(hosts, why="this login may not read it (NoAuth)")
    except KazooTimeoutError:
        silent = f"no answer within {patience_s:g} s"
        return ZooKeeperAnswer(hosts, why=zk_client.why(client) or silent)
    except KazooException as error:
        why = zk_client.why(client) or str(error) or type(error).__name__
        return ZooKeeperAnswer(hosts, why=why)
    finally:
        client.stop()
        client.close()


def _read(client: KazooClient, hosts: str, deadline: float) -> ZooKeeperAnswer:
    def value(call: Any, nothing: Any) -> Any:
        try:
            return call.get(timeout=max(0.1, deadline - time.monotonic()))
        except NoNodeError:
            return nothing

    identity = client.get_async(cluster.PATH)
    mark = client.get_async(own.PATH)
    children = sorted(one or "" for one in value(client.get_children_async(brokers.ROOT), []))
    ids = [one for one in children if number_of(one) is not None]
    asked = {one: client.get_async(f"{brokers.ROOT}/{one}") for one in ids}
    read = {one: value(call, (None,))[0] for one, call in asked.items()}
    registered = {one: data for one, data in read.items() if data is not None}
    strange = [one for one in children if one not in asked]
    found = ZooKeeperAnswer(hosts, value(identity, (None,))[0], registered, strange=strange)
    try:
        marked = own.rolled_back(own.try_parse(value(mark, (None,))[0]))
    except NoAuthError:
        return found  # nothing is decided by it
    return replace(found, rolled_back=marked)


def shown(text: object) -> str:
    r"""A text of others in one line, not longer than a reader needs.

    >>> shown("a" + chr(10) + "b" * 1_000)[:4], len(shown("b" * 1_000))
    ('a\\nb', 201)
    """
    whole = str(text)
    short = whole[:SHOWN_MAX]
    return printable(short) + ("…" if len(whole) > len(short) else "")


def _strange(names: Sequence[str]) -> dict[str, str]:
    """Why some children of ``/brokers/ids`` are left out.

    >>> _strange(["..", "x", "y", "z"])
    {'/brokers/ids': '.., x, y … (4) are no ids of brokers, and left out'}
    """
    if not names:
        return {}
    some = ", ".join(shown(one) or "''" for one in names[:3]) + (
        f" … ({len(names)})" if names[3:] else ""
    )
    verb = "are no ids of brokers, and" if names[1:] else "is no broker's id, and"
    return {brokers.ROOT: f"{some} {verb} left out"}


def versions(read: ZooKeeperAnswer, config: Config, patience_s: float) -> ReadValues:
    """Ask each registered broker for its ``inter.broker.protocol.version``, many at a time.

    Args:
        read: the registered brokers.
        config: the listener of the brokers, and the login there.
        patience_s: for all of it.
    """
    if read.why:
        return ReadValues(whys={f"ZooKeeper at {read.hosts}": read.why})
    left_out = _strange(read.strange)
    if not read.brokers:
        return ReadValues(whys=left_out or {brokers.ROOT: "no broker is registered there"})
    waiting: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
    for one in read.brokers.items():
        waiting.put(one)

    def work() -> None:
        while not waiting.empty():
            try:
                number, data = waiting.get_nowait()
            except queue.Empty:
                return
            answers.put((number, *_asked(number, data, config, patience_s)))

    # Not a pool: a thread that still waits for a broker is not waited for.
    for _ in range(min(AT_ONCE, len(read.brokers))):
        threading.Thread(target=work, name="ask", daemon=True).start()
    found: dict[str, str] = {}
    whys = dict.fromkeys(read.brokers, f"no answer within {patience_s:g} s")
    deadline = time.monotonic() + patience_s
    for _ in read.brokers:
        try:
            number, value, why = answers.get(timeout=max(0.001, deadline - time.monotonic()))
        except queue.Empty:
            break
        whys[number] = why
        found |= {number: value} if value else {}
    order = sorted(read.brokers, key=lambda number: (len(number), number))
    return ReadValues(
        {f"broker {one}": found[one] for one in order if one in found},
        left_out | {f"broker {one}": whys[one] for one in order if one not in found},
    )


def _asked(number: str, data: bytes, config: Config, patience_s: float) -> tuple[str, str]:
    """A broker's version, or why it is not known."""
    began = time.monotonic()
    try:
        at = _endpoint(number, data, config.inter_broker_listener_name)
        return _described(number, at, config, patience_s), ""
    except TimeoutError:
        # A connection is not waited for as long as an answer.
        return "", f"no answer within {round(time.monotonic() - began, 1):g} s"
    except OSError as error:
        return "", shown(sentence(error))
    except (LoginError, TooOldError, ValueError) as error:
        return "", shown(error)
    except Exception as error:  # noqa: BLE001 - a znode and a broker may hold anything
        why = shown(f"{type(error).__name__}: {error}")
        return "", f"this broker could not be asked because of {why}"


def _endpoint(number: str, data: bytes, listener: str) -> Endpoint:
    registered = brokers.parse(f"{brokers.ROOT}/{number}", data).endpoints
    for one in registered:
        if one.name.upper() == listener:
            return one
    others = f"only {', '.join(one.name for one in registered)}" if registered else "and no other"
    raise ValueError(f"it has no listener {listener} (inter.broker.listener.name), {others}")


def _described(number: str, at: Endpoint, config: Config, patience_s: float) -> str:
    access = config.inter_broker_access
    kind = m.DescribeConfigsRequest
    resource = kind.DescribeConfigsResource(
        resource_type=BROKER, resource_name=number, configuration_keys=[IBP]
    )
    asked = kind(resources=[resource])
    login, tls = Login.of(access.login), config.tls.get(access.tls)
    with closing(Connection(at.host, at.port, patience_s, login, tls=tls)) as connection:
        results = connection.call(asked).results
    if len(results) != 1:
        raise ValueError(f"it was asked for one resource, and answers for {len(results)}")
    result = results[0]
    if result.error_code:
        raise ValueError(result.error_message or named(result.error_code))
    for one in result.configs:
        if one.name == IBP and one.value:
            return shown(one.value)
    raise ValueError(f"it does not say its {IBP}")


def of_files(paths: Iterable[Path]) -> ReadValues:
    """The version in each broker's ``server.properties``; none is said of a file that has none."""
    found, whys = dict[str, str](), dict[str, str]()
    for path in paths:
        try:
            value = properties.parse(text_of(path)).get(IBP, "").strip()
        except OSError as error:
            whys[str(path)] = error.strerror or str(error)
        except ValueError as error:
            whys[str(path)] = str(error)
        else:
            if value:
                found[str(path)] = shown(value)
            else:
                whys[str(path)] = f"it has no {IBP}, so that of the broker's release counts"
    return ReadValues(found, whys, "" if found else "; ".join(f"{k}: {v}" for k, v in whys.items()))
