"""Clients that add and remove access control entries."""

from __future__ import annotations

from typing import Final

from emulator.metadata.acls import Acl, Resource
from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.changes import Changes
from wire import messages as m

VERSION: Final = 3
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


class AclChanges(Changes[Acl]):
    """Adds an entry, or removes it if it is there."""

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one change through one of the brokers."""
        acl, broker = self._rng.choice(ENTRIES), self._rng.choice(brokers)
        if not self._free(acl):
            return
        there = self._there(acl)
        self._ask(
            broker,
            acl,
            _removal(acl) if there else _creation(acl),
            VERSION,
            error_of=_error,
            kept=lambda: None if self._there(acl) is not there else "is as before",
            removes=there,
        )

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
