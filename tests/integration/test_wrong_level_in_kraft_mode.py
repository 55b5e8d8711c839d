"""A real broker in KRaft mode whose release does not know the level of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KafkaBroker
from emulator.servers.waiting import wait_for

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
RELEASE: Final = "3.4.1"
LEVEL: Final = "3.5"
"""From 3.7-IV2 on it would be refused for its folders first, in Kafka's order of the reasons."""


@pytest.mark.requirement("N09")
def test_it_is_refused_and_ends(
    tmp_path: Path, real_brokers: Callable[[KafkaBroker], KafkaBroker]
) -> None:
    with ExitStack() as stack:
        ours = Bridge(tmp_path / "controller", None)
        stack.callback(ours.kill)
        ours.format(CLUSTER, LEVEL).start().wait_started()
        broker = real_brokers(
            KafkaBroker(RELEASE, 1, tmp_path, None, controller_port=ours.port, broker_count=1)
        )
        broker.extra["initial.broker.registration.timeout.ms"] = 3_000
        broker.identify(CLUSTER).start()
        wait_for("its end", lambda: not broker.alive)
        assert broker.exit_code not in {0, None}
        refused = [line for line in ours.lines() if "broker refused" in line]
        assert refused
        assert all("code=UNSUPPORTED_VERSION" in line for line in refused), refused
        assert ours.wait_status("an answer", bool)["brokers"] == []
