"""AlterUserScramCredentials (51): set or remove the SCRAM credentials of users. KIP-554, KIP-900.

Kafka: ControllerApis.handleAlterUserScramCredentials, ScramControlManager (3.9).

Per user, in order: UNSUPPORTED_VERSION below metadata.version 3.5-IV2; UNACCEPTABLE_CREDENTIAL for
an empty name; UNSUPPORTED_SASL_MECHANISM; RESOURCE_NOT_FOUND for a deletion of a credential that
does not exist, UNACCEPTABLE_CREDENTIAL for too few or too many iterations; DUPLICATE_RESOURCE for a
user named twice, with any mechanisms; UNACCEPTABLE_CREDENTIAL for an empty salted password, and if
the user would not fit into its znode (``storable``). The valid users of a request are altered, all
in one batch. Needs ALTER on CLUSTER.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Result
from emulator.controller.rules.storable import Room
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.scram import Credential, Mechanism, record_of
from emulator.seam import Pace, Slices, listed
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.AlterUserScramCredentialsResponse
Answer = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Deletion = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Change = r.UserScramCredentialRecord | r.RemoveUserScramCredentialRecord

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
HASHES: Final[Mapping[int, str]] = MappingProxyType(
    {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
)
DUPLICATE: Final = ApiError(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
NO_ERROR: Final = ApiError(ErrorCode.NONE)
UNSUPPORTED: Final = ApiError(
    ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
)


def refused(
    request: m.AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> Response:
    """The response with the error for every user, each name once."""
    names = {one.name for one in _asked(request)}
    return Response(results=[_answer(name, ApiError(code, message)) for name in sorted(names)])


@handles(m.AlterUserScramCredentialsRequest, refused=refused, needs=Operation.ALTER)
def alter_user_scram_credentials(
    image: Image, request: m.AlterUserScramCredentialsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Alter each user once; a user named twice is not altered."""
    # The first error of a user is reported.
    judged: dict[str, Deletion | Upsertion | ApiError] = {}
    pace = Pace()
    for asked in _asked(request):
        if pace.over():
            yield
        before = judged.get(asked.name)
        if before is None:
            judged[asked.name] = _error(image, asked) or asked
        elif not isinstance(before, ApiError):
            judged[asked.name] = DUPLICATE
    room = Room(image, ctx)
    outcomes: dict[str, Change | ApiError] = {}
    for name, one in judged.items():
        if pace.over():
            yield
        outcomes[name] = _stored(_change(one), room)
    done = {name: one for name, one in outcomes.items() if not isinstance(one, ApiError)}
    results = yield from listed(lambda name: _answer(name, NO_ERROR), done)
    wrong = [(name, one) for name, one in outcomes.items() if isinstance(one, ApiError)]
    results += yield from listed(lambda one: _answer(*one), wrong)
    return Result(Response(results=results), tuple(done.values()))


def _asked(request: m.AlterUserScramCredentialsRequest) -> list[Deletion | Upsertion]:
    return [*request.deletions, *request.upsertions]


def _error(image: Image, asked: Deletion | Upsertion) -> ApiError | None:
    if not image.metadata_version.supports(Feature.SCRAM):
        return UNSUPPORTED
    if not asked.name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if asked.mechanism not in HASHES:
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(asked, Deletion):
        if (asked.name, asked.mechanism) in image.scram_credentials:
            return None
        text = "Attempt to delete a user credential that does not exist"
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, text)
    if asked.iterations < ITERATIONS_MIN:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > ITERATIONS_MAX:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None


def _change(asked: Deletion | Upsertion | ApiError) -> Change | ApiError:
    if isinstance(asked, ApiError):
        return asked
    if isinstance(asked, Deletion):
        return r.RemoveUserScramCredentialRecord(name=asked.name, mechanism=asked.mechanism)
    if not asked.salted_password:
        # Java's HMAC does not accept an empty key.
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Empty salted password")
    return record_of((asked.name, asked.mechanism), credential(asked))


def _stored(change: Change | ApiError, room: Room) -> Change | ApiError:
    why = None if isinstance(change, ApiError) else room.take([change])
    return change if why is None else ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


def credential(asked: Upsertion) -> Credential:
    """The credential computed from a salted password (RFC 5802, section 3; ScramFormatter)."""
    hash_name = HASHES[asked.mechanism]
    client_key = hmac.digest(asked.salted_password, b"Client Key", hash_name)
    return Credential(
        salt=asked.salt,
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(asked.salted_password, b"Server Key", hash_name),
        iterations=asked.iterations,
    )


def _answer(user: str, error: ApiError) -> Answer:
    return Answer(user=user, error_code=error.code, error_message=error.message)
