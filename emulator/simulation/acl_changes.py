"""Clients that add and remove access control entries, and what an answer promises.

One change of one entry at a time; where an answer never came, the entry is left alone from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.metadata.acls import Acl, Resource
from emulator.metadata.image import Image
from emulator.simulation.broker import Broker
from emulator.simulation.violation import ensure
from wire import messages as m
from wire.errors import ErrorCode

VERSION: Final = 3
HARMLESS: Final = frozenset({ErrorCode.NOT_CONTROLLER})
RESOURCES: Final = (
    Resource(2, 3, "t-acl"),
    Resource(2, 3, "*"),
    Resource(2, 4, "t-acl"),
    Resource(3, 3, "g:1"),
    Resource(5, 4, "tx-"),
)
ENTRIES: Final = tuple(
    Acl(resource, principal, "*", operation, permission)
    for resource in RESOURCES
    for principal in ("User:alice", "User:*")
    for operation, permission in ((4, 3), (8, 2))
)


class AclChanges:
    """Asks, and holds each answer against what is committed by then.

    Args:
        rng: what is asked for.
        image: the newest committed image.
    """

    def __init__(self, rng: Random, image: Callable[[], Image]) -> None:
        self._rng = rng
        self._image = image
        self._busy: set[Acl] = set()
        self._lost: set[Acl] = set()
        self.set = 0
        self.removed = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return bool(self._busy)

    def one(self, brokers: list[Broker]) -> None:
        """Add an entry, or remove it if it is there, through one of the brokers."""
        acl, broker = self._rng.choice(ENTRIES), self._rng.choice(brokers)
        if acl in self._busy or acl in self._lost:
            return
        self._busy.add(acl)
        there = self._there(acl)

        def answered(answer: object | None) -> None:
            self._busy.discard(acl)
            error = _error(answer)
            if error is None or error == ErrorCode.REQUEST_TIMED_OUT:
                self._lost.add(acl)
            elif error not in HARMLESS:
                ensure(error == ErrorCode.NONE, "expected-answers", f"{acl}: {error}")
                promised = self._there(acl) is not there
                ensure(promised, "answered-is-committed", f"{acl} is as before")
                self.set += not there
                self.removed += there

        broker.ask(_removal(acl) if there else _creation(acl), VERSION, answered)

    def _there(self, acl: Acl) -> bool:
        return acl in self._image().resource_acls(acl.resource).values()


def _creation(acl: Acl) -> object:
    kinds = m.CreateAclsRequest
    creation = kinds.AclCreation(
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        resource_pattern_type=acl.resource.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return kinds(creations=[creation])


def _removal(acl: Acl) -> object:
    kinds = m.DeleteAclsRequest
    exactly = kinds.DeleteAclsFilter(
        resource_type_filter=acl.resource.resource_type,
        resource_name_filter=acl.resource.name,
        pattern_type_filter=acl.resource.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return kinds(filters=[exactly])


def _error(answer: object | None) -> int | None:
    match answer:
        case m.CreateAclsResponse():
            return answer.results[0].error_code
        case m.DeleteAclsResponse():
            return answer.filter_results[0].error_code
        case _:
            return None
