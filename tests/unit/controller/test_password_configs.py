"""Passwords in configs of brokers: taken only if they can be written to ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.requests import alter_config
from tests.unit.controller.world import broker, handle, image_of

IMAGE = image_of(broker(1))


@pytest.mark.parametrize(
    ("migration_enabled", "properties", "code"),
    [
        (True, {}, 40),
        (True, {"password.encoder.secret": "s"}, 0),
        (False, {}, 0),
    ],
)
def test_a_password_needs_the_secret_it_is_written_to_zookeeper_with(
    *, migration_enabled: bool, properties: dict[str, str], code: int
) -> None:
    """A KRaft controller of Kafka writes it to ZooKeeper as it is, where no broker can read it."""
    key = "listener.name.x.ssl.keystore.password"
    request = alter_config(4, key, "p", "1")
    fields: dict[str, Any] = {"migration_enabled": migration_enabled, "properties": properties}
    (answer,) = handle(IMAGE, request, **fields).response.responses
    assert answer.error_code == code
    if code:
        assert answer.error_message == "Password encoder secret not configured"
    removal = alter_config(4, key, None, "1")
    result = handle(IMAGE, removal, **fields)
    assert [one.error_code for one in result.response.responses] == [0]
