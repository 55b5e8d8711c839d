"""The client machine on real sockets, one thread, no loop: for tests against a real ZooKeeper."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from itertools import count
from random import Random

from emulator.config.zookeeper import OPEN, ZooKeeperSecurity
from emulator.seam import Close, Closed, Connect, Connected, Effect, Received, Send
from emulator.servers.waiting import PATIENCE_S
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import ZkOutcome, ZkRequest


def in_order(servers: int) -> Random:
    """Randomness that leaves the list of servers as it is."""
    order = list(range(servers))
    seed = next(seed for seed in count() if Random(seed).sample(order, servers) == order)
    return Random(seed)


class Wire:
    """The client machine on a blocking socket.

    One connection at a time, waits for what it wants.
    """

    def __init__(
        self,
        *ports: int,
        chroot: str = "",
        max_in_flight: int = 10,
        session_timeout_ms: int = 6_000,
        security: ZooKeeperSecurity = OPEN,
        keeps_session: bool = False,
    ) -> None:
        servers = [("127.0.0.1", port) for port in ports]
        self.client = ZkClient(
            servers,
            chroot,
            session_timeout_ms,
            1_000,
            count(1).__next__,
            in_order(len(ports)),
            max_in_flight=max_in_flight,
            security=security,
            keeps_session=keeps_session,
        )
        self.sockets: dict[int, socket.socket] = {}
        self.conn = 0
        self.perform(self.client.start(self.now()))
        self.until_connected()

    def now(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connect(conn=conn, host=host, port=port):
                    self.conn = conn
                    try:
                        self.sockets[conn] = socket.create_connection((host, port), 300)
                    except OSError as error:
                        self.perform(self.client.handle(Closed(conn, str(error)), self.now()))
                    else:
                        self.perform(self.client.handle(Connected(conn), self.now()))
                case Send(conn=conn, data=data):
                    with suppress(OSError):  # the next read tells
                        self.sockets[conn].sendall(data)
                case Close(conn=conn):
                    if conn in self.sockets:
                        self.sockets.pop(conn).close()

    def pump(self, timeout_s: float = 0.05) -> None:
        conn = self.conn
        self.perform(self.client.tick(self.now()))
        if conn not in self.sockets:
            return
        self.sockets[conn].settimeout(timeout_s)
        try:
            data = self.sockets[conn].recv(1 << 20)
        except TimeoutError:
            return
        except OSError as error:
            self.drop(conn, str(error))
            return
        if data:
            self.perform(self.client.handle(Received(conn, data), self.now()))
        else:
            self.drop(conn, "closed by server")

    def drop(self, conn: int, why: str) -> None:
        self.sockets.pop(conn).close()
        self.perform(self.client.handle(Closed(conn, why), self.now()))

    def until_connected(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self.client.connected:
            assert time.monotonic() < end
            self.pump()

    def until_fenced(self) -> None:
        """Until it is connected anew; it may not have seen yet that the server was killed."""
        end = time.monotonic() + PATIENCE_S
        while not (self.client.connected and self.client.fenced):
            assert time.monotonic() < end
            self.pump()

    def collect(self, number: int) -> list[ZkOutcome]:
        outcomes: list[ZkOutcome] = []
        end = time.monotonic() + PATIENCE_S
        while len(outcomes) < number:
            assert time.monotonic() < end, outcomes
            self.pump()
            outcomes += self.client.take_results()
        return outcomes

    def submit(self, tag: object, request: ZkRequest) -> None:
        self.perform(self.client.submit(tag, request, self.now()))

    def ask(self, request: ZkRequest) -> ZkOutcome:
        self.submit("ask", request)
        (outcome,) = self.collect(1)
        return outcome

    def end(self) -> None:
        for one in self.sockets.values():
            one.close()
