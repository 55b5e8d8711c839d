"""Properties of nodes that log in to each other by SASL, for clusters joined in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulator.net.login import Login
from tests.kit.joined import Asker

SECURITY = "org.apache.kafka.common.security"
PLAIN_USERS = {"node": "of-the-nodes", "admin": "of-admin", "alice": "of-alice"}
"""Names and passwords for PLAIN; the nodes are the first one."""
USERS = PLAIN_USERS | {"scram": "of-scram", "stranger": "of-stranger"}
"""And of others."""
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
}


def module(mechanism: str = "PLAIN") -> str:
    """The login module of a listener: its users, and who logs in to it."""
    own = f'username="node" password="{USERS["node"]}"'
    if mechanism != "PLAIN":
        return f"{SECURITY}.scram.ScramLoginModule required {own};"
    users = " ".join(f'user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    return f"{SECURITY}.plain.PlainLoginModule required {own} {users};"


def sasl(*listeners: str, mechanisms: str = "PLAIN") -> dict[str, str]:
    """Properties of a node with these listeners, or of one that connects to them."""
    protocols = ",".join(f"{name}:SASL_PLAINTEXT" for name in listeners)
    return {
        "listener.security.protocol.map": protocols,
        "sasl.enabled.mechanisms": mechanisms,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"listener.name.{name.lower()}.{one.lower()}.sasl.jaas.config": module(one)
            for name in listeners
            for one in mechanisms.split(",")
        },
    }


def log_in(asker: Asker, user: str, mechanism: str = "PLAIN", password: str | None = None) -> Asker:
    """Log in on a connection.

    Raises:
        LoginError: refused.
    """
    story = Login(mechanism, user, USERS[user] if password is None else password).conversation()
    request: Any = next(story)
    try:
        while True:
            request = story.send(asker.ask(request, 1))
    except StopIteration:
        return asker


def log_in_file(
    folder: Path, user: str, mechanism: str = "PLAIN", authority: Path | None = None
) -> Path:
    """The properties of a client of Kafka that logs in; with TLS if it trusts an authority."""
    tls = f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\n" if authority else ""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    path = folder / f"{user}.properties"
    path.write_text(
        f"security.protocol=SASL_{'SSL' if authority else 'PLAINTEXT'}\n{tls}"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={SECURITY}.{kind}LoginModule required "
        f'username="{user}" password="{USERS[user]}";\n'
        "request.timeout.ms=10000\ndefault.api.timeout.ms=20000\n"
    )
    return path
