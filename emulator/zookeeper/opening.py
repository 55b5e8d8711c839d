"""The requests of a connection between the handshake and regular use: login, then chroot.

    SASL (two tokens) -> addauth digest -> close the old session        -> over
                                        -> sync -> make sure of the chroot -> over

One request at a time until the login is complete: an ensemble that demands authentication closes
the session at the first request it refuses, and the old session is closed by a request too. Source:
ZooKeeper 3.9.5 ClientCnxn.primeConnection, ZooKeeperServer.processSasl; Kafka 3.9
KafkaZkClient.createZkClient (chroot).
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.zookeeper import acl
from emulator.zookeeper.channel import Channel
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.jute import JuteError
from emulator.zookeeper.ops import (
    AddAuth,
    CloseSession,
    Create,
    Exists,
    Failure,
    SaslToken,
    Sync,
    Value,
    ZkRequest,
)
from emulator.zookeeper.sasl import DigestMd5, SaslError
from emulator.zookeeper.states import Step


class AuthError(JuteError):
    """ZooKeeper refused the login; only an operator can change that."""


class Opening:
    """The requests of one connection before regular use.

    Args:
        channel: after the handshake, no request sent yet.
        security: identities; whether the chroot is made with Kafka's ACLs.
        chroot: "" or "/a/b".
        nonce: unpredictable printable text.
        closes: the session is an old one and is only reattached to be closed.
    """

    def __init__(
        self,
        channel: Channel,
        security: ZooKeeperSecurity,
        chroot: str,
        nonce: Callable[[], str],
        *,
        closes: bool,
    ) -> None:
        self._channel = channel
        self._security = security
        self._chroot = chroot
        self._closes = closes
        self._sasl: DigestMd5 | None = None
        self._challenges = 0
        if security.sasl is not None:
            login = security.sasl
            self._sasl = DigestMd5(login.username, login.password, nonce())
        self.done = False
        """Whether the connection is ready, or the old session is closed."""

    def begin(self, now_ms: int) -> bytes:
        """Bytes of the first requests."""
        if self._sasl is not None:
            return self._ask(Step.SASL, SaslToken(b""), now_ms)
        return self._after_sasl(now_ms)

    def answer(self, step: Step, value: Value | Failure, now_ms: int) -> bytes:
        """Take an answer; returns the bytes to send next, possibly none.

        Raises:
            AuthError: a login is refused.
            JuteError: the answer does not allow the connection to continue.
        """
        code = value.code if isinstance(value, Failure) else ZkCode.OK
        match step:
            case Step.SASL:
                return self._sasl_token(value, now_ms)
            case Step.ADD_AUTH if code == ZkCode.OK:
                return self._authenticated(now_ms)
            case Step.ADD_AUTH:
                assert self._security.digest is not None
                raise _refused("digest", self._security.digest.username, code)
            case Step.SYNC if code == ZkCode.OK:
                self.done = not self._chroot
            case Step.CHROOT_EXISTS if code == ZkCode.NO_NODE:
                return self._create_chroot(now_ms)
            case Step.CLOSE_OLD | Step.CHROOT_EXISTS if code == ZkCode.OK:
                self.done = True
            case Step.CHROOT_CREATE if code in (ZkCode.OK, ZkCode.NODE_EXISTS):
                self.done = self._channel.in_flight_count == 0
            case Step.CHROOT_CREATE | Step.CHROOT_EXISTS:
                raise JuteError(f"the chroot {self._chroot}: {code_name(code)}")
            case _:
                raise JuteError(f"{step.name}: {code_name(code)}")
        return b""

    def _sasl_token(self, value: Value | Failure, now_ms: int) -> bytes:
        assert self._sasl is not None
        assert self._security.sasl is not None
        user = self._security.sasl.username
        if isinstance(value, Failure):
            raise _refused("SASL DIGEST-MD5", user, value.code)
        if not isinstance(value, bytes):
            raise AuthError(
                "SASL: the server does not support it: it has no authProvider or JAAS section"
            )
        try:
            self._challenges += 1
            if self._challenges == 1:
                return self._ask(Step.SASL, SaslToken(self._sasl.respond(value)), now_ms)
            self._sasl.finish(value)
        except SaslError as error:
            raise AuthError(f"SASL DIGEST-MD5 as {user}: {error}") from error
        return self._after_sasl(now_ms)

    def _after_sasl(self, now_ms: int) -> bytes:
        login = self._security.digest
        if login is None:
            return self._authenticated(now_ms)
        auth = f"{login.username}:{login.password}".encode()
        return self._ask(Step.ADD_AUTH, AddAuth("digest", auth), now_ms)

    def _authenticated(self, now_ms: int) -> bytes:
        if self._closes:
            return self._ask(Step.CLOSE_OLD, CloseSession(), now_ms)
        data = self._ask(Step.SYNC, Sync("/"), now_ms)
        if self._chroot:
            data += self._ask(Step.CHROOT_EXISTS, Exists("/"), now_ms)
        return data

    def _create_chroot(self, now_ms: int) -> bytes:
        names = self._chroot[1:].split("/")
        prefixes = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        creates: list[ZkRequest] = [Create(prefix, None) for prefix in prefixes]
        if self._security.set_acl:
            creates = [acl.protected(create) for create in creates]
        step = Step.CHROOT_CREATE
        frames = [self._channel.request(step, op, now_ms, absolute=True) for op in creates]
        return b"".join(frames)

    def _ask(self, step: Step, request: ZkRequest, now_ms: int) -> bytes:
        return self._channel.request(step, request, now_ms)


def _refused(how: str, user: str, code: int) -> AuthError:
    return AuthError(f"{how}: ZooKeeper refuses the user {user} ({code_name(code)})")
