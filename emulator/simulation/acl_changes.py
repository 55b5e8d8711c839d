"""Clients that add and remove access control entries."""

from __future__ import annotations

from typing import Final

from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.changes import Changes
from emulator.simulation.facts import AclFacts
from wire import messages as m

VERSION: Final = 3
RESOURCES: Final = ((2, 3, "t-acl"), (2, 3, "*"), (2, 4, "t-acl"), (3, 3, "g:1"), (5, 4, "tx-"))
"""Type, pattern, name."""
ENTRIES: Final = tuple(
    AclFacts(*resource, principal, "*", operation, permission)
    for resource in RESOURCES
    for principal in ("User:alice", "User:*")
    for operation, permission in ((4, 3), (8, 2))
)


class AclChanges(Changes[AclFacts]):
    """Adds an entry, or removes it if it is there."""

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one change through one of the brokers."""
        acl, broker = self.rng.choice(ENTRIES), self.rng.choice(brokers)
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

    def _there(self, acl: AclFacts) -> bool:
        return acl in self._facts().acls.values()


def _creation(acl: AclFacts) -> object:
    kinds = m.CreateAclsRequest
    creation = kinds.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return kinds(creations=[creation])


def _removal(acl: AclFacts) -> object:
    kinds = m.DeleteAclsRequest
    exactly = kinds.DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
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
