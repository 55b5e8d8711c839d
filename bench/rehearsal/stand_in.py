"""Stands in for the controller in ZooKeeper mode: it is elected, and carries out nothing.

Emulated brokers are never the controller. Without one a migration could not begin, nor would
``rollback`` see that a broker was elected.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

_LOOK_S: Final = 0.05
_ANSWER_S: Final = 5.0
_EPOCH: Final = "/controller_epoch"
_HOLDER: Final = "/controller"


class StandIn:
    """Takes ``/controller`` in the name of a broker whenever nobody holds it.

    Args:
        client: connected; closed by its owner.
        broker_id: in whose name.
    """

    def __init__(self, client: KazooClient, broker_id: int) -> None:
        self._client = client
        self._broker_id = broker_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stand-in", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """Watch no more; what it holds ends with the session of its client.

        A ZooKeeper that is gone never answers what was asked: then it ends with its client.
        """
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_ANSWER_S)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            # ZooKeeper may be slow, or end: the run sees that by itself.
            with contextlib.suppress(KazooException, KazooTimeoutError):
                if self._client.exists(_HOLDER) is None:
                    self._elect()

    def _elect(self) -> None:
        """As KafkaController.elect: the epoch and the znode in one multi."""
        try:
            data, stat = self._client.get(_EPOCH)
        except NoNodeError:
            with contextlib.suppress(NodeExistsError):
                self._client.create(_EPOCH, b"0")
            return
        held = {
            "version": 2,
            "brokerid": self._broker_id,
            "timestamp": str(time.time_ns() // 1_000_000),
            "kraftControllerEpoch": -1,
        }
        transaction = self._client.transaction()
        transaction.create(_HOLDER, json.dumps(held).encode(), ephemeral=True)
        transaction.set_data(_EPOCH, str(int(data) + 1).encode(), stat.version)
        with contextlib.suppress(BadVersionError, NodeExistsError):
            transaction.commit()
