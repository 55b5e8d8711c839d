"""Clients that change quotas and SCRAM credentials."""

from __future__ import annotations

from typing import Final, TypeAlias

from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.changes import Changes
from emulator.simulation.facts import Entity, Facts, entity_of
from wire import messages as m

QUOTAS_VERSION: Final = 1
SCRAM_VERSION: Final = 0
SCRAM_LEVEL: Final = 11
"""The first level of metadata.version with records for credentials."""
ENTITIES: Final[tuple[tuple[Entity, str], ...]] = (
    ((("user", "alice"),), "producer_byte_rate"),
    ((("user", "alice"),), "request_percentage"),
    ((("user", None),), "consumer_byte_rate"),
    ((("user", "alice"), ("client-id", "app 1")), "producer_byte_rate"),
    ((("user", "b/c"), ("client-id", None)), "controller_mutation_rate"),
    ((("client-id", None),), "producer_byte_rate"),
    ((("ip", "10.0.0.1"),), "connection_creation_rate"),
)
USERS: Final = tuple((name, mechanism) for name in ("alice", "b/c") for mechanism in (1, 2))
Key: TypeAlias = tuple[Entity, str] | tuple[str, int]


class ClientChanges(Changes[Key]):
    """Sets one value, or removes it."""

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one change through one of the brokers."""
        broker = self.rng.choice(brokers)
        keys: list[Key] = [*ENTITIES]
        if self._facts().level >= SCRAM_LEVEL:
            keys += USERS
        key = self.rng.choice(keys)
        number = None if self.rng.random() < 0.4 else self.rng.randint(4_096, 9_999)
        if not self._free(key):
            return
        if number is None and _found(self._facts(), key) is None:
            return

        def kept() -> str | None:
            found = _found(self._facts(), key)
            return None if found == number else f"{number} was asked for, it is {found}"

        request, version = _quota(key, number) if key in ENTITIES else _scram(key, number)
        self._ask(broker, key, request, version, error_of=_error, kept=kept, removes=number is None)


def _found(facts: Facts, key: Key) -> float | None:
    """A limit, or a credential's iterations."""
    what, which = key
    if isinstance(what, str):
        credential = facts.scram.get((what, int(which)))
        return None if credential is None else credential.iterations
    return facts.client_quotas.get(entity_of(what), {}).get(str(which))


def _quota(key: Key, number: int | None) -> tuple[object, int]:
    entity, name = key
    kinds = m.AlterClientQuotasRequest
    assert isinstance(entity, tuple)
    entry = kinds.EntryData(
        entity=[kinds.EntityData(entity_type=kind, entity_name=one) for kind, one in entity],
        ops=[kinds.OpData(key=str(name), value=float(number or 0), remove=number is None)],
    )
    return kinds(entries=[entry], validate_only=False), QUOTAS_VERSION


def _scram(key: Key, number: int | None) -> tuple[object, int]:
    name, mechanism = str(key[0]), int(str(key[1]))
    kinds = m.AlterUserScramCredentialsRequest
    if number is None:
        deletion = kinds.ScramCredentialDeletion(name=name, mechanism=mechanism)
        return kinds(deletions=[deletion], upsertions=[]), SCRAM_VERSION
    upsertion = kinds.ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=number,
        salt=b"salt",
        salted_password=b"salted",
    )
    return kinds(deletions=[], upsertions=[upsertion]), SCRAM_VERSION


def _error(answer: object | None) -> int | None:
    match answer:
        case m.AlterClientQuotasResponse():
            return answer.entries[0].error_code
        case m.AlterUserScramCredentialsResponse():
            return answer.results[0].error_code
        case _:
            return None
