"""A cluster on a ZooKeeper that lets nobody in who has not logged in; see ``node_stage``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.security import ACL, Id, make_acl

from emulator.io.jaas_file import inlined
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zk_dump import dump
from emulator.servers.zookeeper import Secured, ZooKeeper
from tests.integration.node_stage import Stage
from tests.kit.certificates import Authority
from tests.kit.fixtures import started_zookeeper

USERS = {"kafka": "broker secret", "guest": "guest secret"}
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
SSL = "zookeeper.ssl."
ALL, READ = 31, 1
CREATOR_ALL = [make_acl("auth", "", all=True)]
BROKERS_ACL = [*CREATOR_ALL, make_acl("world", "anyone", read=True)]


class Ensemble:
    """One server with a plain and a TLS port; everybody must log in by some scheme.

    Its certificate is for ``localhost`` alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        secured = Secured(
            USERS,
            keystore=self.authority.issue("server", "localhost"),
            truststore=self.authority.pem,
            required=("sasl", "digest", "x509"),
        )
        self.server: ZooKeeper = started_zookeeper(folder / "zk", fsync=False, secured=secured)

    def jaas(self, user: str, password: str | None = None) -> Path:
        """A JAAS file as brokers have it."""
        path = self.folder / f"{user}.jaas"
        secret = USERS[user] if password is None else password
        path.write_text(f'Client {{ {MODULE} required username="{user}" password="{secret}"; }};\n')
        return path

    def sasl(self, user: str = "kafka", password: str | None = None) -> dict[str, object]:
        """Properties of a controller that logs in."""
        return {"kraftbridge.zookeeper.jaas.config": self.jaas(user, password)}

    def tls(self, **more: object) -> dict[str, object]:
        """Kafka's own properties for TLS; ``more`` without their common prefix."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY,
            SSL + "truststore.location": self.authority.pem,
            SSL + "truststore.type": "PEM",
            **{SSL + key.replace("_", "."): value for key, value in more.items()},
        }

    @property
    def tls_hosts(self) -> str:
        return f"localhost:{self.server.tls_port}"

    def kazoo(self, user: str = "kafka", **options: Any) -> KazooClient:
        """A client of somebody else's making, logged in as ``user``."""
        return KazooClient(
            self.server.hosts,
            timeout=60,
            sasl_options={"mechanism": "DIGEST-MD5", "username": user, "password": USERS[user]},
            **options,
        )

    @contextmanager
    def client(self, user: str = "kafka") -> Iterator[KazooClient]:
        """The same, started, and ended in the end."""
        found = self.kazoo(user)
        found.start(timeout=PATIENCE_S)
        try:
            yield found
        finally:
            found.stop()
            found.close()

    @contextmanager
    def root(self) -> Iterator[KazooClient]:
        """Whom no ACL stops: an operator that repairs one."""
        auth = ("digest", f"super:{self.server.secured.super_password}")  # type: ignore[union-attr]
        found = KazooClient(self.server.hosts, timeout=60, auth_data=[auth])
        found.start(timeout=PATIENCE_S)
        try:
            yield found
        finally:
            found.stop()
            found.close()


class SecuredStage(Stage):
    """Brokers are the user ``kafka``, and so is our controller unless a test says otherwise."""

    def __init__(self, folder: Path, ensemble: Ensemble, proxy: FaultProxy) -> None:
        super().__init__(folder, ensemble.server, proxy)
        self.ensemble = ensemble
        self.client = ensemble.kazoo(default_acl=BROKERS_ACL)
        self._common = dict(self.bridge.extra)
        self._plain = proxy.hosts
        self.bridge.extra = {**self._common, **self.usual}
        login = {key: str(value) for key, value in self.usual.items()}
        self.brokers.extra |= inlined(login)

    @property
    def usual(self) -> dict[str, object]:
        """SASL, in plain text, through the proxy."""
        return {"zookeeper.set.acl": "true", **self.ensemble.sasl()}

    def restart(self, properties: Mapping[str, object], hosts: str = "") -> None:
        """The controller with other properties for ZooKeeper, or at another address of it."""
        self.bridge.kill()
        self.bridge.zk = hosts or self._plain
        self.bridge.extra = {**self._common, **properties}
        self.bridge.start().wait_started()

    def again(self) -> None:
        """As a test should find it."""
        if self.bridge.extra != {**self._common, **self.usual} or self.bridge.zk != self._plain:
            self.restart(self.usual)
        self.revive()

    def why(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait until /status names a reason that contains ``text``, and return it."""

        def named(status: dict[str, Any]) -> bool:
            return bool(_reasons(status, text))

        return _reasons(self.bridge.wait_status(f"{text!r} in /status", named, timeout_s), text)[0]

    def dumped(self) -> dict[str, Any]:
        """The whole tree, as ``kafka`` sees it."""
        return dump("", connect=lambda _: self.ensemble.kazoo(), with_secrets=True)


def _reasons(status: dict[str, Any], text: str) -> list[str]:
    migration = status["migration"]
    said = [one["text"] for one in migration["waiting"]]
    said += [f"{one['znode']}: {one['cause']}" for one in migration["poisoned"]]
    return [one for one in said if text in one]


def shown(acls: list[ACL]) -> set[tuple[int, str, str]]:
    """ACLs as perms, scheme and id."""
    return {(one.perms, one.id.scheme, one.id.id) for one in acls}


def owned(user: str) -> set[tuple[int, str, str]]:
    """What ZooKeeper makes of creator-all."""
    return {(ALL, "sasl", user)}


WORLD_READ = {(READ, "world", "anyone")}
NOBODY = [ACL(READ, Id("world", "anyone"))]
"""Everybody may read, nobody may write."""
