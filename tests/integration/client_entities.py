"""Steps of the one migration: quotas, SCRAM credentials, an encoded password. Nothing here asserts.

Some are there before, some change and go in dual write. What brokers say of them they read from
ZooKeeper themselves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bench.load import cluster_api as api
from wire import messages as m

if TYPE_CHECKING:
    from tests.integration.migrated import Story

ENCODER = {"password.encoder.secret": "only for this test", "password.encoder.iterations": 1024}
KEY = "listener.name.internal.ssl.keystore.password"
BROKER = 1
ODD = "CN=a b*/ü"
Entity = dict[str, str | None]


def prepare(story: Story) -> None:
    """Before anything starts: all share the secret."""
    for process in (story.bridge, *story.cluster.brokers):
        process.extra.update(ENCODER)


def _quotas(broker: str, *changes: tuple[Entity, str, float | None]) -> Any:
    kinds = m.AlterClientQuotasRequest
    entries = [
        kinds.EntryData(
            entity=[kinds.EntityData(entity_type=k, entity_name=name) for k, name in one.items()],
            ops=[kinds.OpData(key=key, value=value or 0.0, remove=value is None)],
        )
        for one, key, value in changes
    ]
    return asyncio.run(api.call(broker, kinds(entries=entries, validate_only=False)))


def _credentials(broker: str, upserted: dict[str, int], deleted: dict[str, int]) -> Any:
    kinds = m.AlterUserScramCredentialsRequest
    request = kinds(
        deletions=[kinds.ScramCredentialDeletion(name=n, mechanism=k) for n, k in deleted.items()],
        upsertions=[
            kinds.ScramCredentialUpsertion(
                name=name,
                mechanism=kind,
                iterations=4_096,
                salt=b"some salt",
                salted_password=b"salted",
            )
            for name, kind in upserted.items()
        ],
    )
    return asyncio.run(api.call(broker, request))


def _password(story: Story, value: str) -> None:
    broker = story.cluster.brokers[BROKER].bootstrap
    asyncio.run(api.set_configs(broker, api.BROKER, str(BROKER), {KEY: value}))


def in_zookeeper_mode(story: Story) -> None:
    """What the migration finds."""
    shape = story.shape()
    controller = shape.brokers[shape.controller_id]
    story.seen["quotas_before"] = _quotas(
        controller,
        ({"user": "alice"}, "producer_byte_rate", 1_000_000_000.0),
        ({"user": ODD}, "request_percentage", 55.5),
        ({"user": "alice", "client-id": "app 1"}, "consumer_byte_rate", 512_000_000.0),
        ({"client-id": None}, "controller_mutation_rate", 1e10),
        ({"ip": "10.0.0.1"}, "connection_creation_rate", 10.0),
    )
    story.seen["credentials_before"] = _credentials(controller, {"alice": 1, "bob": 2}, {})
    _password(story, "before")


def in_dual_write(story: Story) -> None:
    """Through a broker that is not the controller; the last value of each kind goes."""
    broker = story.cluster.brokers[2].bootstrap
    story.seen["quotas_after"] = _quotas(
        broker,
        ({"user": "alice"}, "producer_byte_rate", 2_000_000_000.0),
        ({"user": "alice", "client-id": "app 1"}, "consumer_byte_rate", None),
        ({"user": "new", "client-id": None}, "producer_byte_rate", 777_000_000.0),
        ({"client-id": None}, "controller_mutation_rate", None),
        ({"ip": "10.0.0.1"}, "connection_creation_rate", None),
        ({"ip": None}, "connection_creation_rate", 1_000_000.0),
    )
    story.seen["credentials_after"] = _credentials(broker, {"dave": 2}, {"bob": 2})
    _password(story, "after")
    story.bridge.wait_drained()
    quotas = m.DescribeClientQuotasRequest(components=[], strict=False)
    users = m.DescribeUserScramCredentialsRequest(users=None)
    story.seen["quotas_described"] = asyncio.run(api.call(broker, quotas))
    story.seen["credentials_described"] = asyncio.run(api.call(broker, users))
    story.seen["tree_of_clients"] = {
        path: data
        for path, data in story.tree().items()
        if path.startswith(
            ("/config/users/", "/config/clients/", "/config/ips/", "/config/brokers/")
        )
    }
