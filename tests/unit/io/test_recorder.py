"""The proxy that records: bytes pass unchanged, ends pass by themselves, files are whole."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from emulator.config.listeners import HostPort
from emulator.io.recorder import PAIRS, TOTALS, Recorder, RecordingFolder, Route
from tests.kit.served import served
from wire import messages as m
from wire.check import check
from wire.frame import RequestHeader, encode_request, encode_response, framed

HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Stage:
    """A server, a recorder before it, and clients."""

    def __init__(self, folder: Path, serve: Serve) -> None:
        self.folder = RecordingFolder(folder)
        self.notes: list[str] = []
        self.recorder = Recorder(self.folder, self.notes.append)
        self._serve = serve
        self.bound: Sequence[HostPort] = []

    async def run(
        self, visit: Callable[[Stage], Awaitable[None]], to: HostPort | None = None
    ) -> None:
        async with served(self._serve) as port:
            await self._recorded(visit, to or HostPort(HOST, port))

    async def _recorded(self, visit: Callable[[Stage], Awaitable[None]], to: HostPort) -> None:
        ready = asyncio.Event()

        def bound(addresses: Sequence[HostPort]) -> None:
            self.bound = addresses
            ready.set()

        route = Route(HostPort(HOST, 0), to)
        async with asyncio.timeout(300):
            running = asyncio.ensure_future(self.recorder.run([route], bound))
            try:
                await asyncio.wait(
                    [running, asyncio.ensure_future(ready.wait())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                await visit(self)
            finally:
                self.recorder.stop()
                try:
                    await running
                finally:
                    self.folder.close()

    async def client(self) -> Streams:
        return await asyncio.open_connection(HOST, self.bound[0].port)


def request(number: int, text: str = "a") -> bytes:
    header = RequestHeader(18, 3, number, "me")
    return framed(encode_request(header, m.ApiVersionsRequest(text, "1")))


def response(number: int) -> bytes:
    return framed(encode_response(18, 3, number, m.ApiVersionsResponse()))


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers requests in order, then closes its side."""
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(size)
            writer.write(response(int.from_bytes(frame[4:8], "big")))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.transport.abort()


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / PAIRS).read_text().splitlines()]


def test_pairs_are_recorded_and_pass_the_check(tmp_path: Path) -> None:
    async def visit(stage: Stage) -> None:
        for _ in range(2):
            reader, writer = await stage.client()
            writer.write(request(1) + request(2))
            assert await reader.readexactly(len(response(1)) * 2) == response(1) + response(2)
            writer.close()

    stage = Stage(tmp_path / "out", answering)
    asyncio.run(stage.run(visit))
    found = lines(tmp_path / "out")
    assert [one["n"] for one in found] == [1, 2, 3, 4]
    assert sorted((str(one["conn"]), str(one["corr"])) for one in found) == [
        ("1", "1"),
        ("1", "2"),
        ("2", "1"),
        ("2", "2"),
    ]
    checked = check([tmp_path / "out" / PAIRS])
    assert (checked.frames, checked.passed) == (8, True)
    chan = str(found[0]["chan"])
    assert json.loads((tmp_path / "out" / TOTALS).read_text()) == [
        {"chan": chan, "api_key": 18, "api": "ApiVersions", "api_version": 3, "count": 4}
    ]
    assert not stage.notes
    for name in (PAIRS, TOTALS):
        assert (tmp_path / "out" / name).stat().st_mode & 0o777 == 0o600


def test_a_client_that_has_said_all_still_gets_its_answers(tmp_path: Path) -> None:
    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        writer.write(request(1))
        writer.write_eof()
        assert await reader.read(-1) == response(1)
        writer.close()

    asyncio.run(Stage(tmp_path, answering).run(visit))
    assert len(lines(tmp_path)) == 1


def test_a_server_that_has_said_all_still_gets_requests(tmp_path: Path) -> None:
    got: list[bytes] = []

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        got.append(await reader.read(-1))
        writer.close()

    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        assert await reader.read(-1) == b""
        writer.write(request(1))
        writer.write_eof()
        await writer.drain()
        while not got:
            await asyncio.wait([asyncio.ensure_future(reader.read(1))])
        writer.close()

    asyncio.run(Stage(tmp_path, half).run(visit))
    assert got == [request(1)]
    assert [one["response"] for one in lines(tmp_path)] == [None]


def test_a_server_that_cuts_is_seen_as_cut(tmp_path: Path) -> None:
    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        writer.write(request(1))
        try:
            assert await reader.read(-1) == b""
        except ConnectionResetError:
            """As it would be without a proxy."""
        writer.close()

    asyncio.run(Stage(tmp_path, closing).run(visit))
    assert [one["response"] for one in lines(tmp_path)] == [None]


def test_frames_of_megabytes_pass_and_are_recorded_whole(tmp_path: Path) -> None:
    data = m.EnvelopeRequest(request_data=b"x" * 30_000_000)
    long = framed(encode_request(RequestHeader(58, 0, 1, "me"), data))

    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        writer.write(long)
        assert await reader.readexactly(len(response(1))) == response(1)
        writer.close()

    asyncio.run(Stage(tmp_path, answering).run(visit))
    (one,) = lines(tmp_path)
    assert len(str(one["request"])) == (len(long) - 4 + 2) // 3 * 4


@pytest.mark.slow
def test_who_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    """The proxy keeps a bounded amount of what a client does not take."""
    written = 0

    async def pouring(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        with_limit = b"\0" * 65_536
        try:
            while True:
                writer.write(with_limit)
                async with asyncio.timeout(1):
                    await writer.drain()
                written += len(with_limit)
        except TimeoutError:
            writer.transport.abort()

    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        before = -1
        while before != written:
            before = written
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=1.5)
        writer.transport.abort()

    asyncio.run(Stage(tmp_path, pouring).run(visit))
    assert 0 < written < 32 * 1024 * 1024


def test_what_is_not_kafkas_passes_and_is_noted_once(tmp_path: Path) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

    async def echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        for _ in range(3):
            writer.write(hello)
            assert await reader.readexactly(len(hello)) == hello
        writer.close()

    stage = Stage(tmp_path, echoing)
    asyncio.run(stage.run(visit))
    assert lines(tmp_path) == []
    (note,) = stage.notes
    assert note.startswith("a connection is not recorded any more: no request of Kafka")


def test_a_server_that_is_not_there_is_noted_and_the_client_closed(tmp_path: Path) -> None:
    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        assert await reader.read(-1) == b""
        writer.close()

    stage = Stage(tmp_path, answering)
    asyncio.run(stage.run(visit, HostPort(HOST, 1)))
    assert len(stage.notes) == 1
    assert f"{HOST}:1" in stage.notes[0]


def test_stopped_in_the_middle_the_files_are_whole(tmp_path: Path) -> None:
    sent = request(1) + request(2)[:9]
    came = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(sent)) == sent
        came.set()
        await reader.read(-1)
        writer.close()

    async def visit(stage: Stage) -> None:
        _, writer = await stage.client()
        writer.write(sent)
        await came.wait()
        stage.recorder.stop()
        writer.close()

    asyncio.run(Stage(tmp_path, silent).run(visit))
    assert [(one["corr"], one["response"]) for one in lines(tmp_path)] == [(1, None)]
    assert json.loads((tmp_path / TOTALS).read_text())[0]["count"] == 1


def test_a_full_disk_ends_the_recording_with_whole_lines_and_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = os.write, [2]

    def full(fd: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "no space")
        # The second line is written in part only.
        return write(fd, data if left[0] else bytes(data)[:20])

    async def visit(stage: Stage) -> None:
        whole = response(1) + response(2)
        for _ in range(2):
            reader, writer = await stage.client()
            for _ in range(2):
                writer.write(request(1) + request(2))
                assert await reader.readexactly(len(whole)) == whole
            writer.close()

    stage = Stage(tmp_path, answering)
    monkeypatch.setattr("emulator.io.recorder.os.write", full)
    with pytest.raises(OSError, match="no space"):
        asyncio.run(stage.run(visit))
    monkeypatch.undo()
    assert [one["corr"] for one in lines(tmp_path)] == [1]
    ended, missing = stage.notes
    assert ended.startswith("nothing is recorded any more, connections go on: ")
    assert re.fullmatch(r"the last \d+ s are not recorded", missing)


def test_a_fault_in_pairing_ends_the_recording_of_a_connection_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(*_: object) -> None:
        raise ZeroDivisionError("a fault of this program")

    async def visit(stage: Stage) -> None:
        reader, writer = await stage.client()
        for number in (1, 2):
            writer.write(request(number))
            assert await reader.readexactly(len(response(number))) == response(number)
        writer.close()

    monkeypatch.setattr("emulator.net.recording.PairedConnection.answered", answered)
    stage = Stage(tmp_path, answering)
    asyncio.run(stage.run(visit))
    (note,) = stage.notes
    assert "a fault of this program" in note


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    RecordingFolder(tmp_path).close()
    with pytest.raises(FileExistsError):
        RecordingFolder(tmp_path)
