"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.conformance.asking import eventually, reads
from bench.conformance.case import Ask, Program, Stage, Where, case, code, same
from wire import messages as m

SHA_256, SHA_512 = 1, 2
_ASKS: Final = (m.AlterUserScramCredentialsRequest,)
_MANAGER: Final = "KIP-554; ScramControlManager"


def upsertion(stage: Stage, name: str, mechanism: int = SHA_256, iterations: int = 4_096) -> Any:
    """A credential to set, of a drawn password."""
    return m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=stage.rng.randbytes(20),
        salted_password=stage.rng.randbytes(64 if mechanism == SHA_512 else 32),
    )


def deletion(name: str, mechanism: int = SHA_256) -> Any:
    """A credential to delete."""
    kind = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    return kind(name=name, mechanism=mechanism)


def alteration(upsertions: Sequence[Any] = (), deletions: Sequence[Any] = ()) -> Any:
    """The request."""
    return m.AlterUserScramCredentialsRequest(
        upsertions=list(upsertions), deletions=list(deletions)
    )


def results(message: Any) -> dict[str, int]:
    """User -> error."""
    same(
        "users of the answer: each once",
        len({one.user for one in message.results}),
        len(message.results),
    )
    return {one.user: one.error_code for one in message.results}


def question(*names: str) -> Any:
    """A DescribeUserScramCredentials request."""
    kind = m.DescribeUserScramCredentialsRequest
    return kind(users=[kind.UserName(name=one) for one in names])


def shown(stage: Stage, name: str, expected: dict[int, int]) -> Program:
    """Wait until a user has these mechanisms and iterations; nothing if no broker is named."""
    if not reads(stage):
        return

    def done(message: Any) -> bool:
        code("DescribeUserScramCredentials", message.error_code, 0)
        (one,) = message.results
        found = {info.mechanism: info.iterations for info in one.credential_infos}
        same("mechanisms of a user: each once", len(found), len(one.credential_infos))
        right = one.error_code == (0 if expected else 91)
        return one.user == name and found == expected and right

    yield from eventually(
        f"credentials of {name}: {expected}", question(name), done, at=Where.BROKER
    )


@case(
    "AlterUserScramCredentials sets, changes and deletes credentials of each mechanism",
    sources=_MANAGER,
    asks=_ASKS,
)
def change(stage: Stage) -> Program:
    name = stage.name()
    for mechanism in (SHA_256, SHA_512):
        asked = alteration([upsertion(stage, name, mechanism, 4_096 + mechanism)])
        same("results", results((yield Ask(asked)).message), {name: 0})
    yield from shown(stage, name, {SHA_256: 4_097, SHA_512: 4_098})
    asked = alteration([upsertion(stage, name, SHA_256, 16_384)])
    same("results", results((yield Ask(asked)).message), {name: 0})
    yield from shown(stage, name, {SHA_256: 16_384, SHA_512: 4_098})
    same(
        "results",
        results((yield Ask(alteration(deletions=[deletion(name, SHA_512)]))).message),
        {name: 0},
    )
    yield from shown(stage, name, {SHA_256: 16_384})
    same("results", results((yield Ask(alteration(deletions=[deletion(name)]))).message), {name: 0})
    yield from shown(stage, name, {})


@case(
    "AlterUserScramCredentials: iterations or names that cannot be get UNACCEPTABLE_CREDENTIAL",
    sources=_MANAGER,
    asks=_ASKS,
)
def unacceptable(stage: Stage) -> Program:
    name = stage.name()
    for iterations in (4_095, 0, -1, 16_385):
        asked = alteration([upsertion(stage, name, SHA_256, iterations)])
        found = results((yield Ask(asked)).message)
        code(f"a credential of {iterations} iterations", found.get(name, 0), 93)
    found = results((yield Ask(alteration([upsertion(stage, "")]))).message)
    code("a credential of no name", found.get("", 0), 93)
    found = results((yield Ask(alteration(deletions=[deletion("")]))).message)
    code("to delete a credential of no name", found.get("", 0), 93)
    yield from shown(stage, name, {})


@case(
    "AlterUserScramCredentials: a mechanism that is not known gets UNSUPPORTED_SASL_MECHANISM",
    sources=_MANAGER,
    asks=_ASKS,
)
def mechanisms(stage: Stage) -> Program:
    for mechanism in (0, 3, 99, -1):
        name = stage.name()
        found = results((yield Ask(alteration([upsertion(stage, name, mechanism)]))).message)
        code(f"a credential of mechanism {mechanism}", found.get(name, 0), 33)
        found = results((yield Ask(alteration(deletions=[deletion(name, mechanism)]))).message)
        code(f"to delete one of mechanism {mechanism}", found.get(name, 0), 33)


@case(
    "AlterUserScramCredentials: what is not there gets RESOURCE_NOT_FOUND, each by itself",
    sources=_MANAGER,
    asks=_ASKS,
)
def partial(stage: Stage) -> Program:
    good, none, low = stage.name(), stage.name(), stage.name()
    asked = alteration(
        [upsertion(stage, good), upsertion(stage, low, SHA_256, 1)], [deletion(none)]
    )
    same("results", results((yield Ask(asked)).message), {good: 0, none: 91, low: 93})
    yield from shown(stage, good, {SHA_256: 4_096})
    asked = alteration(deletions=[deletion(good, SHA_512)])
    same("results of the other mechanism", results((yield Ask(asked)).message), {good: 91})
    yield from shown(stage, good, {SHA_256: 4_096})


@case(
    "AlterUserScramCredentials: a user's mechanism twice gets DUPLICATE_RESOURCE",
    sources=_MANAGER,
    asks=_ASKS,
)
def twice(stage: Stage) -> Program:
    name, good = stage.name(), stage.name()
    asked = alteration(
        [upsertion(stage, name), upsertion(stage, name), upsertion(stage, good, SHA_512)]
    )
    same("results", results((yield Ask(asked)).message), {name: 92, good: 0})
    yield from shown(stage, good, {SHA_512: 4_096})
    asked = alteration([upsertion(stage, good, SHA_512)], [deletion(good, SHA_512)])
    same("results of one set and deleted", results((yield Ask(asked)).message), {good: 92})
    yield from shown(stage, good, {SHA_512: 4_096})


@case(
    "DescribeUserScramCredentials: unknown users and those asked twice have errors of their own",
    sources="KIP-554; ScramImage.describe",
    where=Where.BROKER,
    asks=(m.AlterUserScramCredentialsRequest, m.DescribeUserScramCredentialsRequest),
)
def describe(stage: Stage) -> Program:
    a, b, none = stage.name(), stage.name(), stage.name()
    same(
        "results",
        results((yield Ask(alteration([upsertion(stage, a), upsertion(stage, b)]))).message),
        {a: 0, b: 0},
    )
    for name in (a, b):
        yield from shown(stage, name, {SHA_256: 4_096})
    answer = (yield Ask(question(a, none))).message
    same("results", results(answer), {a: 0, none: 91})
    answer = (yield Ask(question(a, b, b))).message
    same("results of one asked twice", results(answer), {a: 0, b: 92})
    everyone: Any
    for everyone in (None, []):
        answer = (yield Ask(m.DescribeUserScramCredentialsRequest(users=everyone))).message
        found = results(answer)
        same(
            f"users {everyone}: those of the run",
            {one: found.get(one) for one in (a, b)},
            {a: 0, b: 0},
        )
