"""What a real broker asks for before it takes part in a migration: without it, it ends."""

from __future__ import annotations

import pytest

from emulator.servers.kafka import KafkaBroker

pytestmark = [pytest.mark.jvm]

NOBODY = "127.0.0.1:1"


@pytest.mark.requirement("T03", "C05", "C06")
@pytest.mark.parametrize(
    ("missing", "word"),
    [
        ({"controller.quorum.voters": ""}, "controller.quorum.voters"),
        ({"controller.listener.names": ""}, "controller.listener.names"),
    ],
)
def test_a_migrating_broker_without_its_controllers_settings_refuses_to_start(
    missing, word, tmp_path, real_brokers
):
    short = {"zookeeper.connection.timeout.ms": 500}
    options = {"controller_port": 2, "migration": True, "properties": missing | short}
    broker = real_brokers(KafkaBroker("3.9.2", 0, tmp_path, NOBODY, **options))
    broker.start()
    broker.wait_until("end", lambda: not broker.alive)
    text = broker.tail() + broker.log.read_text(errors="replace")
    assert broker.exit_code != 0
    assert word in text
    assert "ZooKeeperClientTimeoutException" not in text, "it ended for another reason"
