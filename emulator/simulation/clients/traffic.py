"""Everything that clients ask for during a run: classes of requests, each at its own pace.

Each request draws from a random stream of its own, named by class and number, so that one can be
left out (``Scenario.skip``) and the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

from emulator.net.greeting import declared
from emulator.simulation.clients.changes import Changes
from emulator.simulation.clients.hostile import Hostile
from emulator.simulation.clients.load import Load
from emulator.simulation.clients.moves import Moves
from emulator.simulation.facts import METADATA_VERSION, AclFacts, Entity, Facts, entity_of
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.models.scheduler import MS, Scheduler
from emulator.simulation.scenarios.scenario import Scenario
from emulator.simulation.violation import ensure
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request

# Clients that ask for another metadata.version, which a migration does not allow.

FEATURE_VERSION: Final = 1


class FeatureChanges:
    """Asks for a level; the level must be what the answer says.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        self._facts = facts
        self._waiting = False

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one level."""
        if self._waiting:
            return
        self._waiting = True
        kinds = m.UpdateFeaturesRequest
        wanted = self.rng.choice((-1, 0, 1, 8, 11, 14, 21, 26, 99))
        key = kinds.FeatureUpdateKey(
            feature=METADATA_VERSION,
            max_version_level=wanted,
            upgrade_type=self.rng.choice((1, 2, 3)),
        )
        before = self._facts().level

        def answered(answer: object | None) -> None:
            self._waiting = False
            if not isinstance(answer, m.UpdateFeaturesResponse):
                return
            codes = {answer.error_code, *(one.error_code for one in answer.results)}
            now = self._facts().level
            held = now == wanted if codes == {0} else now == before
            ensure(held, "answered-is-committed", f"level {wanted}: {codes}, it is {now}")

        broker = self.rng.choice(brokers)
        broker.ask(kinds(feature_updates=[key], timeout_ms=4_000), FEATURE_VERSION, answered)


# Clients that make delegation tokens, move their expiry and end them.

VERSIONS: Final = {m.CreateDelegationTokenRequest: 3, m.ExpireDelegationTokenRequest: 2}
ALICE: Final = b"\x00\x00\x05User\x06alice\x00\x00"
"""Principal data of an Envelope: only a client that has logged in gets tokens."""
UNKNOWABLE: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})
HARMLESS: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    }
)


class TokenChanges:
    """Asks, and holds each answer against what is committed by then.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        self._facts = facts
        self._known: dict[str, bytes] = {}
        self._waiting = 0
        self.made = 0
        self.ended = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting > 0

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Make a token, or end one of those that were made."""
        broker = self.rng.choice(brokers)
        if self._known and self.rng.random() < 0.5:
            token_id = self.rng.choice(sorted(self._known))
            self._end(broker, token_id, self._known.pop(token_id))
            return
        kinds = m.CreateDelegationTokenRequest
        renewers = [
            kinds.CreatableRenewers(principal_type="User", principal_name=f"r {index}%")
            for index in range(self.rng.randint(0, 2))
        ]
        request = kinds(renewers=renewers, max_lifetime_ms=self.rng.choice((-1, 86_400_000)))

        def made(answer: object | None) -> None:
            if isinstance(answer, m.CreateDelegationTokenResponse) and _held(answer.error_code):
                there = answer.token_id in self._facts().tokens
                ensure(there, "answered-is-committed", f"token {answer.token_id} was made")
                self._known[answer.token_id] = answer.hmac
                self.made += 1

        self._ask(broker, request, made)

    def _end(self, broker: SimulatedBroker, token_id: str, hmac: bytes) -> None:
        request = m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)

        def gone(answer: object | None) -> None:
            if isinstance(answer, m.ExpireDelegationTokenResponse) and _held(answer.error_code):
                there = token_id in self._facts().tokens
                ensure(not there, "answered-is-committed", f"token {token_id} was ended")
                self.ended += 1

        self._ask(broker, request, gone)

    def _ask(
        self, broker: SimulatedBroker, request: object, answered: Callable[[object | None], None]
    ) -> None:
        self._waiting += 1
        (_, key), version = declared(type(request)), VERSIONS[type(request)]
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=1, client_id="client"
        )
        envelope = m.EnvelopeRequest(
            request_data=encode_request(header, request),
            request_principal=ALICE,
            client_host_address=b"\x7f\x00\x00\x01",
        )

        def opened(answer: object | None) -> None:
            self._waiting -= 1
            if isinstance(answer, m.EnvelopeResponse) and answer.response_data and _ok(answer):
                answered(decode_response(key, version, answer.response_data)[1])

        broker.ask(envelope, 0, opened)


def _ok(answer: m.EnvelopeResponse) -> bool:
    return answer.error_code == ErrorCode.NONE


def _held(code: int) -> bool:
    known = code in HARMLESS | UNKNOWABLE | {ErrorCode.NONE}
    ensure(known, "expected-answers", f"a token: {code}")
    return code == ErrorCode.NONE


# Clients that change quotas and SCRAM credentials.

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
        self._ask(
            broker, key, request, version, error_of=_client_error, kept=kept, removes=number is None
        )


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


def _client_error(answer: object | None) -> int | None:
    match answer:
        case m.AlterClientQuotasResponse():
            return answer.entries[0].error_code
        case m.AlterUserScramCredentialsResponse():
            return answer.results[0].error_code
        case _:
            return None


# Clients that add and remove access control entries.

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


class Client(Protocol):
    """One class of requests."""

    rng: Random

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask once, through one of these brokers."""

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""


class Traffic:
    """All classes a scenario wants, from :meth:`begin` until as many changes are asked for.

    Args:
        seed: of the run.
        scenario: which classes, how often, how much.
        facts: the newest that is committed.
        brokers: those that can pass a request on.
        scheduler: the clock.
    """

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        facts: Callable[[], Facts],
        brokers: Callable[[], list[SimulatedBroker]],
        scheduler: Scheduler,
    ) -> None:
        self._seed = seed
        self._scenario = scenario
        self._brokers = brokers
        self._scheduler = scheduler
        self.begun = False
        self.load = Load(
            facts,
            lambda what: scheduler.add_line("client", what),
            scenario.partitions_max,
            keeps_one=scenario.attempts > 1 or bool(scenario.back_at),
        )
        self.moves = Moves(facts)
        self.client_changes = ClientChanges(facts)
        self.acl_changes = AclChanges(facts)
        self.token_changes = TokenChanges(facts)
        self.hostile = Hostile(lambda what: scheduler.add_line("client", what))
        self._classes: dict[str, tuple[Client, int]] = {
            "changes": (self.load, scenario.change_every_ms),
            "moves": (self.moves, scenario.moves_every_ms),
            "clients": (self.client_changes, scenario.client_changes_every_ms),
            "acls": (self.acl_changes, scenario.acl_changes_every_ms),
            "tokens": (self.token_changes, scenario.token_changes_every_ms),
            "hostile": (self.hostile, scenario.hostile_every_ms),
            "features": (FeatureChanges(facts), scenario.feature_changes_every_ms),
        }
        self.asked = dict.fromkeys(self._classes, 0)
        """Requests so far, by class; those left out count."""

    def begin(self) -> None:
        """The migration has come to where clients may ask."""
        self.begun = True
        self.load.begin()
        for name, (client, every_ms) in self._classes.items():
            if every_ms and self._scenario.changes:
                self._ask(name, client, every_ms)

    @property
    def over(self) -> bool:
        """Nothing more will be asked for."""
        return self.begun and self.asked["changes"] >= self._scenario.changes

    @property
    def waiting(self) -> list[str]:
        """Classes of which an answer is still expected."""
        return [name for name, (client, _) in self._classes.items() if client.busy]

    def operations(self) -> list[str]:
        """Names of all requests so far, for ``Scenario.skip``."""
        return [f"{name}/{n}" for name, count in self.asked.items() for n in range(count)]

    def _ask(self, name: str, client: Client, every_ms: int) -> None:
        at_once = self._scenario.changes_at_once if name == "changes" else 1
        for _ in range(at_once):
            number = self.asked[name]
            alive = self._brokers()
            if alive:
                self.asked[name] += 1
                if f"{name}/{number}" not in self._scenario.skip:
                    client.rng = Random(f"{self._seed} {name} {number}")
                    client.one(alive)
        if not self.over:
            again_us = at_once * every_ms * MS
            self._scheduler.after(again_us, lambda: self._ask(name, client, every_ms))
