"""A TCP proxy that breaks connections on command: between a client and ZooKeeper, or Kafka.

It runs in a thread of its own; every command has taken effect when its call returns. Both
protocols frame by a four-byte length and answer with the request's number, so a fault may pick one
operation by its code. Every other byte passes untouched, whole frames at a time.
"""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self, TypeVar

from emulator.servers.ports import HOST
from emulator.servers.waiting import PATIENCE_S

T = TypeVar("T")


class FrameProtocol(Enum):
    """Where a request carries its number and operation code, and a reply its number."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"

    def request(self, frame: bytes) -> tuple[int, int]:
        """(number, operation code) of a request frame without its length."""
        if self is FrameProtocol.ZOOKEEPER:
            number, code = struct.unpack_from(">ii", frame)
            return number, code
        code, _, number = struct.unpack_from(">hhi", frame)
        return number, code

    def reply(self, frame: bytes) -> int:
        """Number of the request that a reply frame, without its length, answers."""
        return int(struct.unpack_from(">i", frame)[0])


class Kind(Enum):
    """The effect of a fault on the selected operation."""

    LOSE_REQUEST = "the server never sees it; the connection is cut"
    LOSE_REPLY = "the server does it; its reply is dropped and the connection cut"
    SWALLOW_REPLY = "the server does it; its reply is dropped, the connection stays"


@dataclass(eq=False)
class ProxyFault:
    """One planned fault; it strikes once.

    Args:
        kind: what it does.
        code: operation code it waits for (ZooKeeper's opcode or Kafka's api key); None: any.
        skip: how many matching operations pass before it strikes.
    """

    kind: Kind
    code: int | None = None
    skip: int = 0
    frame: bytes = b""
    _struck: threading.Event = field(default_factory=threading.Event)

    @property
    def struck(self) -> bool:
        """Whether it has happened."""
        return self._struck.is_set()

    def wait(self, timeout_s: float = PATIENCE_S) -> bytes:
        """Wait until it has happened; returns the request frame it picked.

        Raises:
            TimeoutError: it has not.
        """
        if not self._struck.wait(timeout_s):
            raise TimeoutError(f"no operation {self.code} to strike within {timeout_s:g} s")
        return self.frame

    def picks(self, code: int) -> bool:
        """Whether the fault strikes this operation; counts matching operations that pass before."""
        if self.code not in (None, code):
            return False
        self.skip -= 1
        return self.skip < 0


class _Link:
    """One connection through the proxy; `handshaken` is per direction."""

    def __init__(
        self, number: int, protocol: FrameProtocol, *writers: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self.writers = writers
        self.handshaken = [protocol is not FrameProtocol.ZOOKEEPER] * 2
        self.doomed: dict[int, ProxyFault] = {}
        self.asked: dict[int, bytes] = {}

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class FaultProxy:
    """Forwards ``127.0.0.1:port`` to a server; as a context manager started and closed.

    Args:
        target_port: the server's port on the loopback address.
        protocol: how to read frames, if single operations are to be picked.
        port: where to listen; a free one if 0.

    Attributes ``requests`` and ``connections`` count what has passed since the start; ``watch``, if
    set, is shown every request as it comes from the client, whatever is done to it then, and
    ``watch_replies`` every reply as it comes from the server, behind its request. Meanwhile
    ``showing`` is the number of its connection, from 1 on. Both may freeze: what is shown still
    passes the other way.
    """

    def __init__(
        self, target_port: int, protocol: FrameProtocol = FrameProtocol.ZOOKEEPER, port: int = 0
    ) -> None:
        self.target_port = target_port
        self.protocol = protocol
        self.port = port
        self.requests = 0
        self.connections = 0
        self.showing = 0
        self.watch: Callable[[bytes], None] | None = None
        self.watch_replies: Callable[[bytes, bytes], None] | None = None
        self._delay_s = [0.0, 0.0]
        self._bytes_per_s = 0.0
        self._refuse = False
        self._links: set[_Link] = set()
        self._faults: list[ProxyFault] = []
        self._flow: list[asyncio.Event] = []
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def hosts(self) -> str:
        """``host:port`` to hand to a client in place of the server's."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Listen."""
        self._thread.start()
        self._run(self._listen())
        return self

    def close(self) -> None:
        """Stop listening and cut every connection."""
        if self._loop.is_closed():
            return
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def delay(self, to_server_ms: float = 0, to_client_ms: float = 0) -> None:
        """Let every frame from now on arrive that much later, each way; order is kept."""
        self._do(
            lambda: self._delay_s.__setitem__(slice(2), [to_server_ms / 1e3, to_client_ms / 1e3])
        )

    def throttle(self, to_server_bytes_per_s: float) -> None:
        """Limit each connection to so many bytes a second to the server; 0: no limit."""
        self._do(lambda: setattr(self, "_bytes_per_s", to_server_bytes_per_s))

    def freeze(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Stop forwarding in these directions: connections stay open, bytes are held back."""

        def hold() -> None:
            for flow, wanted in zip(self._flow, (to_server, to_client), strict=True):
                if wanted:
                    flow.clear()

        self._do(hold)

    def thaw(self) -> None:
        """Deliver the bytes that were held, and forward again."""

        def release() -> None:
            for flow in self._flow:
                flow.set()

        self._do(release)

    def cut(self) -> int:
        """Abort every connection (RST); clients may connect again. Returns how many there were."""

        def abort() -> int:
            links = list(self._links)
            for link in links:
                link.cut()
            return len(links)

        return self._do(abort)

    def refuse(self, *, on: bool = True) -> None:
        """Close new connections at once, as if the port were closed; cut the existing ones."""
        self._do(lambda: setattr(self, "_refuse", on))
        if on:
            self.cut()

    def plan(self, kind: Kind, code: int | None = None, *, skip: int = 0) -> ProxyFault:
        """Plan a fault for one operation to come; several may be planned, each strikes once."""
        fault = ProxyFault(kind, code, skip)
        self._do(lambda: self._faults.append(fault))
        return fault

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def _do(self, action: Callable[[], T]) -> T:
        if threading.current_thread() is self._thread:  # called by what watches
            return action()

        async def act() -> T:
            return action()

        return self._run(act())

    async def _listen(self) -> None:
        self._flow = [asyncio.Event(), asyncio.Event()]
        for flow in self._flow:
            flow.set()
        self._server = await asyncio.start_server(self._accept, HOST, self.port, limit=2**22)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.cut()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        if self._refuse:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(
                HOST, self.target_port, limit=2**22
            )
        except OSError:
            writer.transport.abort()
            return
        link = _Link(number, self.protocol, writer, up_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(link, reader, up_writer, 0), self._pump(link, up_reader, writer, 1)
            )
        except asyncio.CancelledError:
            return  # closed: streams would report a cancelled callback as a failure
        finally:
            self._links.discard(link)
            link.cut()

    async def _pump(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: int
    ) -> None:
        look = (self._request, self._reply)[way]
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.ensure_future(self._send(queue, writer, way))
        carried_s = 0.0
        try:
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">I", head)[0])
                if look(link, frame):
                    now_s = self._loop.time()
                    if way == 0 and self._bytes_per_s:
                        carried_s = max(carried_s, now_s) + len(frame) / self._bytes_per_s
                        now_s = carried_s
                    queue.put_nowait((now_s + self._delay_s[way], head + frame))
        except asyncio.IncompleteReadError:  # one side closed: close the other in order
            await queue.join()
            writer.close()
        except ConnectionError:
            link.cut()
        finally:
            sender.cancel()

    async def _send(
        self, queue: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter, way: int
    ) -> None:
        while True:
            due, data = await queue.get()
            if (wait := due - self._loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._flow[way].wait()
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            queue.task_done()

    def _request(self, link: _Link, frame: bytes) -> bool:
        """Whether a request passes; also plans the fault of its reply."""
        if not link.handshaken[0]:
            link.handshaken[0] = True  # ZooKeeper's connect request carries no number
            return True
        number, code = self.protocol.request(frame)
        if number < 0:  # ZooKeeper's pings and auth packets are not operations
            return True
        self.requests += 1
        self.showing = link.number
        if self.watch is not None:
            self.watch(frame)
        if self.watch_replies is not None:
            link.asked[number] = frame
        fault = next((fault for fault in self._faults if fault.picks(code)), None)
        if fault is None:
            return True
        self._faults.remove(fault)
        fault.frame = frame
        if fault.kind is Kind.LOSE_REQUEST:
            link.cut()
            fault._struck.set()  # noqa: SLF001 - the proxy's own record
            return False
        link.doomed[number] = fault
        return True

    def _reply(self, link: _Link, frame: bytes) -> bool:
        """Whether a reply passes."""
        if not link.handshaken[1]:
            link.handshaken[1] = True
            return True
        number = self.protocol.reply(frame)
        request = link.asked.pop(number, None)
        self.showing = link.number
        if request is not None and self.watch_replies is not None:
            self.watch_replies(request, frame)
        fault = link.doomed.pop(number, None)
        if fault is None:
            return True
        if fault.kind is Kind.LOSE_REPLY:
            link.cut()
        fault._struck.set()  # noqa: SLF001 - the proxy's own record
        return False
