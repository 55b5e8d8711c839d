"""The znodes that ``rollback --yes`` reads and writes, at a real ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from emulator.commands.zk.client import CONNECT_TIMEOUT_S, Connector, value_of
from emulator.operations.rollback import release
from emulator.operations.rollback.course import CourseError
from emulator.znodes import cluster, controller
from emulator.zookeeper.ops import (
    Check,
    Create,
    Delete,
    Multi,
    ReadValue,
    SetData,
)

T = TypeVar("T")

POLL_S: Final = 0.02
ELECTION_S: Final = 30.0
"""How long brokers may take: each watches ``/controller``."""
_NO_VERSION: Final = 2**31 - 2
"""Of the root: it would have been written that often."""
_CHANGED: Final = (BadVersionError, NoNodeError, NodeExistsError)
_NOT_TRIED: Final = (RolledBackError, RuntimeInconsistency)
"""Errors of the other operations of a multi that was refused."""
COME_BACK: Final = "log in as the controllers do (-c), and run this command again"
_LOST: Final = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)


class RollbackZnodes:
    """The four znodes of a rollback. Connects when it is first asked for something.

    Args:
        hosts: ZooKeeper.
        connect: makes a client of it, with the login.
        creator_only: whether a znode that is created belongs to its creator (``set.acl``).

    Every method raises CourseError if ZooKeeper cannot be asked, or refuses.
    """

    def __init__(self, hosts: str, connect: Connector, creator_only: bool) -> None:
        self._hosts = hosts
        self._connect = connect
        self._creator_only = creator_only
        self._client: KazooClient | None = None

    def close(self) -> None:
        """End the session, if there is one."""
        if self._client is not None:
            self._client.stop()
            self._client.close()

    def _zookeeper(self) -> KazooClient:
        if self._client is None:
            client = self._connect(self._hosts)
            try:
                client.start(timeout=CONNECT_TIMEOUT_S)
            except (KazooTimeoutError, KazooException) as error:
                client.stop()
                client.close()
                raise self._failed(error) from error
            self._client = client
        return self._client

    def read(self) -> Sequence[ReadValue]:
        """Read the four znodes, after a sync."""
        client = self._zookeeper()

        def values() -> list[ReadValue]:
            client.sync("/")
            return [value_of(client, path) for path in release.PATHS]

        return self._until_answered(values)

    def deletions(self) -> Sequence[str]:
        """The children of ``/admin/delete_topics``."""
        client = self._zookeeper()

        def names() -> list[str]:
            try:
                return sorted(client.get_children(cluster.DELETE_TOPICS))
            except NoNodeError:
                return []

        return self._until_answered(names)

    def _until_answered(self, ask: Callable[[], T]) -> T:
        """Ask again for a while if the answer is lost."""
        until = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                return ask()
            except _LOST as error:
                if time.monotonic() > until:
                    raise self._failed(error) from error
                time.sleep(POLL_S)
            except KazooException as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> CourseError:
        if isinstance(error, NoAuthError):
            return CourseError(
                f"ZooKeeper at {self._hosts} does not let this login read the controllers' znodes: "
                "log in as the controllers do (-c)"
            )
        what = str(error) or type(error).__name__
        return CourseError(f"ZooKeeper at {self._hosts}: {what}: run this command again")

    def forbidden(self, multi: Multi) -> str:
        """Send a multi that is refused in any case: a refused right comes before that."""
        trial = Multi((*multi.ops, Check("/", _NO_VERSION)))
        for one in self._until_answered(lambda: self._send(trial)):
            if isinstance(one, Exception) and not isinstance(one, (*_CHANGED, *_NOT_TRIED)):
                return _refusal(one)
        return ""

    def commit(self, multi: Multi) -> bool | None:
        """Send a multi; None after a lost answer: the next read says whether it was applied."""
        try:
            results = self._send(multi)
        except _LOST:
            time.sleep(POLL_S)
            return None
        except KazooException as error:
            raise self._failed(error) from error
        failed = [one for one in results if isinstance(one, Exception)]
        if not failed:
            return True
        if any(isinstance(one, _CHANGED) for one in failed):
            return False
        tried = [one for one in failed if not isinstance(one, _NOT_TRIED)] or failed
        raise CourseError(f"{_refusal(tried[0])}: {COME_BACK}")

    def _send(self, multi: Multi) -> list[object]:
        transaction = self._zookeeper().transaction()
        for op in multi.ops:
            match op:
                case Check():
                    transaction.check(op.path, op.version)
                case SetData():
                    transaction.set_data(op.path, op.data, op.version)
                case Delete():
                    transaction.delete(op.path, op.version)
                case Create():
                    acl = OPEN_ACL_UNSAFE
                    if self._creator_only:
                        acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE
                    transaction.create(op.path, op.data, acl=acl)
        return list(transaction.commit())

    def elected(self) -> tuple[int, float] | None:
        """Watch ``/controller`` until it names a broker in ZooKeeper mode."""
        client, until = self._zookeeper(), time.monotonic() + ELECTION_S
        while (left := until - time.monotonic()) > 0:
            changed = threading.Event()
            try:
                exists = client.exists(controller.PATH, watch=lambda _, event=changed: event.set())
                if exists is not None:
                    data, _ = client.get(controller.PATH)
                    at, holder = time.monotonic(), controller.try_parse(data)
                    if holder is not None and holder.kraft_epoch < 0:
                        return holder.broker_id, at
            except NoNodeError:
                continue
            except _LOST:
                time.sleep(POLL_S)
                continue
            except KazooException as error:
                raise self._failed(error) from error
            changed.wait(min(left, 1.0))
        return None


def _refusal(error: Exception) -> str:
    """Why a multi was refused, in words for the operator who has to mend it."""
    if isinstance(error, NoAuthError):
        return "ZooKeeper does not let this login change the controllers' znodes"
    if isinstance(error, InvalidACLError):
        return (
            "ZooKeeper refuses a znode that only its creator may write (zookeeper.set.acl), as "
            "this login has no name"
        )
    return f"ZooKeeper refuses to change the controllers' znodes ({type(error).__name__})"
