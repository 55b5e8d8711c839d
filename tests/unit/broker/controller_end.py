"""The controller's end of a broker's channels: answers what a test says, when it says so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from emulator.broker.controller_channel import ControllerChannel, ControllerNode
from emulator.net.channel import ChannelConfig
from emulator.seam import Closed, Connect, Connected, Received, Send
from wire.frame import FrameReader, RequestHeader, decode_request, encode_response, framed
from wire.releases import controller_ranges

NODE = ControllerNode(
    "controller",
    9093,
    ChannelConfig(client_id="1", connect_ms=1_000, reply_ms=30_000, retry_ms=50),
)


def channel(release: str = "3.9", give_up_ms: int | None = None) -> ControllerChannel[Any]:
    """A channel to the controller of this file."""
    spoken = controller_ranges(release)
    return ControllerChannel(lambda: NODE, spoken, count(1).__next__, give_up_ms)


class ControllerEnd:
    """Runs one part of a broker on a clock; what it asks waits in ``asked`` for an answer.

    ``at_once``: answers every request as it comes, where it is given.
    """

    def __init__(self, part: Any, at_once: Callable[[RequestHeader, Any], Any] | None = None):
        self.part = part
        self.now_ms = 0
        self.asked: list[tuple[RequestHeader, Any]] = []
        self.at_once = at_once
        self.conn = 0
        self._inbox: list[Any] = []
        self._reader = FrameReader()
        part.start(0)

    def run(self) -> None:
        """Let the part act until it waits."""
        while True:
            self.part.tick(self.now_ms)
            for effect in self.part.effects(self.now_ms):
                self._perform(effect)
            if not self._inbox:
                return
            inbox, self._inbox = self._inbox, []
            for event in inbox:
                self.part.handle(event, self.now_ms)

    def wait(self, ms: int) -> None:
        """Let time pass, waking the part when it asked to be woken."""
        end_ms = self.now_ms + ms
        while (due := self.part.deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self.run()
        self.now_ms = end_ms

    def answer(self, message: Any) -> None:
        """Answer the request that waits."""
        header, _ = self.asked[-1]
        self._reply(header, message)
        self.run()

    def hang_up(self) -> None:
        """The connection ends before the answer."""
        self._inbox.append(Closed(self.conn, "gone"))
        self.run()

    @property
    def last(self) -> Any:
        """The newest request."""
        return self.asked[-1][1]

    def _perform(self, effect: Any) -> None:
        match effect:
            case Connect(conn):
                self.conn, self._reader = conn, FrameReader()
                self._inbox.append(Connected(conn))
            case Send(_, data):
                for frame in self._reader.feed(data):
                    header, request = decode_request(frame)
                    self.asked.append((header, request))
                    if self.at_once is not None:
                        self._reply(header, self.at_once(header, request))

    def _reply(self, header: RequestHeader, message: Any) -> None:
        payload = encode_response(
            header.api_key, header.api_version, header.correlation_id, message
        )
        self._inbox.append(Received(self.conn, framed(payload)))
