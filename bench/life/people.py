"""Passwords, rights and limits, changed in each phase; what brokers must then enforce.

In phase number n user ``alice`` has a password and a quota of that number, by SCRAM; ``reader``,
who logs in by PLAIN, may describe one topic in every phase, and another topic in odd phases only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from bench.life.clients import RECORDS
from bench.life.stage import Stage
from bench.load import cluster_api as api
from bench.load.cluster_api import RefusedError
from bench.matrix.login import HASHES, LoginError, call_as, salted_password
from emulator.servers.kafka import USERS, KafkaBroker
from emulator.servers.ports import HOST
from wire import messages as m
from wire.errors import ErrorCode

ALICE, READER = "alice", "reader"
MECHANISM: Final = "SCRAM-SHA-256"
_SCRAM: Final = 1
_ITERATIONS: Final = 4096
ALWAYS, SOMETIMES, _ = RECORDS
_TOPIC, _LITERAL, _DESCRIBE, _ALLOW, _ANY = 2, 3, 8, 3, 1
_LOGIN_REFUSED: Final = 58
_RETRIED: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


def password(number: int) -> str:
    """Of ``alice`` in a phase."""
    return f"secret of phase {number}"


def quota(number: int) -> float:
    """Bytes per second that ``alice`` may produce in a phase."""
    return 1_000_000.0 + number


def may_describe(number: int) -> bool:
    """Whether ``reader`` may describe the second topic in a phase."""
    return number % 2 == 1


def change(stage: Stage, number: int) -> None:
    """Ask for the passwords, rights and limits of a phase; those there already are left.

    Raises:
        RefusedError: the cluster refused.
        TimeoutError: there is no controller.
    """
    _quota(stage, number)
    if stage.secured:
        _scram(stage, number)
        _acls(stage, number)


def _asked(stage: Stage, what: str, request: Any, codes: Callable[[Any], list[int]]) -> None:
    """Send a request to a broker that takes it, again while there is no controller."""

    def done() -> bool:
        seen = stage.shape(stage.cluster.brokers[0])
        address = seen.brokers.get(seen.controller_id)
        if address is None:
            return False
        answer = asyncio.run(api.call(address, request))
        wrong = [ErrorCode(code) for code in codes(answer) if code]
        if wrong and wrong[0] not in _RETRIED:
            raise RefusedError(f"{what}: {wrong[0].name}")
        return not wrong

    stage.wait(what, done)


def _quota(stage: Stage, number: int) -> None:
    kind = m.AlterClientQuotasRequest
    entity = [kind.EntityData(entity_type="user", entity_name=ALICE)]
    ops = [kind.OpData(key="producer_byte_rate", value=quota(number), remove=False)]
    request = kind(entries=[kind.EntryData(entity=entity, ops=ops)], validate_only=False)
    _asked(stage, "AlterClientQuotas", request, lambda a: [one.error_code for one in a.entries])


def _scram(stage: Stage, number: int) -> None:
    kind = m.AlterUserScramCredentialsRequest
    salt = f"salt {number}".encode()
    upsertion = kind.ScramCredentialUpsertion(
        name=ALICE,
        mechanism=_SCRAM,
        iterations=_ITERATIONS,
        salt=salt,
        salted_password=salted_password(HASHES[MECHANISM], password(number), salt, _ITERATIONS),
    )
    request = kind(upsertions=[upsertion])
    what = "AlterUserScramCredentials"
    _asked(stage, what, request, lambda a: [one.error_code for one in a.results])


def _acls(stage: Stage, number: int) -> None:
    _asked(stage, "CreateAcls", _creation(ALWAYS), lambda a: [one.error_code for one in a.results])
    if may_describe(number):
        request: Any = _creation(SOMETIMES)
        _asked(stage, "CreateAcls", request, lambda a: [one.error_code for one in a.results])
        return
    kind = m.DeleteAclsRequest
    one_topic = kind.DeleteAclsFilter(
        resource_type_filter=_TOPIC,
        resource_name_filter=SOMETIMES,
        pattern_type_filter=_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    request = kind(filters=[one_topic])
    _asked(stage, "DeleteAcls", request, lambda a: [one.error_code for one in a.filter_results])


def _creation(topic: str) -> m.CreateAclsRequest:
    kind = m.CreateAclsRequest
    made = kind.AclCreation(
        resource_type=_TOPIC,
        resource_name=topic,
        resource_pattern_type=_LITERAL,
        principal=f"User:{READER}",
        host="*",
        operation=_DESCRIBE,
        permission_type=_ALLOW,
    )
    return kind(creations=[made])


def wrong(stage: Stage, number: int) -> list[str]:
    """What brokers do not enforce of a phase's passwords, rights and limits, after 15 minutes."""
    found: list[str] = []

    def right() -> bool:
        found[:] = [line for each in stage.cluster.brokers for line in _wrong(stage, each, number)]
        return not found

    try:
        stage.wait("passwords, rights and limits", right)
    except TimeoutError as late:
        return found or [str(late)]
    return []


def _wrong(stage: Stage, broker: KafkaBroker, number: int) -> Iterator[str]:
    actual = _described_quota(broker)
    if actual != quota(number):
        yield f"broker {broker.id}: quota of {ALICE} is {actual}"
    if not stage.secured:
        return
    address = f"{HOST}:{broker.sasl_port}"
    if not _may_log_in(address, password(number)):
        yield f"broker {broker.id}: {ALICE} may not log in"
    if number and _may_log_in(address, password(number - 1)):
        yield f"broker {broker.id}: {ALICE} may log in with the password of the phase before"
    rights = {ALWAYS: True, SOMETIMES: may_describe(number)}
    for topic, wanted in rights.items():
        if _may_describe(address, topic) is not wanted:
            yield f"broker {broker.id}: {READER} may {'not ' * wanted}describe {topic}"


def _described_quota(broker: KafkaBroker) -> float | None:
    kind = m.DescribeClientQuotasRequest
    named = kind.ComponentData(entity_type="user", match_type=0, match=ALICE)
    answer = asyncio.run(api.call(broker.bootstrap, kind(components=[named], strict=True)))
    values = [one.value for entry in answer.entries or () for one in entry.values]
    return values[0] if len(values) == 1 else None


def _may_log_in(address: str, secret: str) -> bool:
    try:
        call_as(address, MECHANISM, ALICE, secret)
    except LoginError as refused:
        if refused.code != _LOGIN_REFUSED:
            raise
        return False
    return True


def _may_describe(address: str, topic: str) -> bool:
    wanted = m.MetadataRequest.MetadataRequestTopic(name=topic)
    request = m.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    (answer,) = call_as(address, "PLAIN", READER, USERS[READER], request)
    return bool(answer.topics[0].error_code == ErrorCode.NONE)
