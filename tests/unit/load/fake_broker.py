"""A broker of a few lines on a real socket: answers what a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

from tests.kit.served import served
from wire import messages as m
from wire.frame import FrameReader, RequestHeader, decode_request, encode_response, framed
from wire.schema import spec

Answer = Callable[[Any], Awaitable[Any]]

_REQUESTS = (
    m.ApiVersionsRequest,
    m.MetadataRequest,
    m.CreateTopicsRequest,
    m.DeleteTopicsRequest,
    m.CreatePartitionsRequest,
    m.IncrementalAlterConfigsRequest,
    m.DescribeQuorumRequest,
)


class Hangup(Exception):  # noqa: N818 - not an error, an instruction
    """Close the connection instead of answering."""


class FakeBroker:
    """``answer`` gets each administrative request; ``headers`` are those of what it was sent.

    ``writers``: of all connections, for what is no answer. ``topics`` are those of its metadata.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.headers: list[RequestHeader] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self.controller: FakeBroker | None = self
        self.topics: list[str] = []

    async def __aenter__(self) -> Self:
        self._serving = served(self._serve)
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        frames = FrameReader()
        try:
            while data := await reader.read(65_536):
                for frame in frames.feed(data):
                    header, request = decode_request(frame)
                    reply = await self._reply(header, request)
                    version = header.api_version
                    body = encode_response(header.api_key, version, header.correlation_id, reply)
                    writer.write(framed(body))
        except (Hangup, ConnectionError):
            pass
        writer.close()

    async def _reply(self, header: RequestHeader, request: Any) -> Any:
        if isinstance(request, m.ApiVersionsRequest):
            kinds = m.ApiVersionsResponse
            specs = [spec(each) for each in _REQUESTS]
            return kinds(
                api_keys=[
                    kinds.ApiVersion(
                        api_key=each.key,
                        min_version=each.min_version,
                        max_version=each.max_version,
                    )
                    for each in specs
                ]
            )
        if isinstance(request, m.MetadataRequest):
            kinds = m.MetadataResponse
            topics = [kinds.MetadataResponseTopic(name=name) for name in self.topics]
            if self.controller is None:
                return kinds(controller_id=-1, topics=topics)
            broker = kinds.MetadataResponseBroker(
                node_id=7, host="127.0.0.1", port=self.controller.port
            )
            return kinds(brokers=[broker], controller_id=7, topics=topics)
        self.headers.append(header)
        return await self.answer(request)


def result(request: Any, error_code: int = 0) -> Any:
    """The answer to an administrative request about one topic."""
    if isinstance(request, m.CreateTopicsRequest):
        made = m.CreateTopicsResponse
        topic = made.CreatableTopicResult(name=request.topics[0].name, error_code=error_code)
        return made(topics=[topic])
    if isinstance(request, m.DeleteTopicsRequest):
        gone = m.DeleteTopicsResponse
        name = request.topics[0].name
        return gone(responses=[gone.DeletableTopicResult(name=name, error_code=error_code)])
    if isinstance(request, m.CreatePartitionsRequest):
        grown = m.CreatePartitionsResponse
        name = request.topics[0].name
        return grown(results=[grown.CreatePartitionsTopicResult(name=name, error_code=error_code)])
    altered = m.IncrementalAlterConfigsResponse
    name = request.resources[0].resource_name
    each = altered.AlterConfigsResourceResponse(
        resource_type=2, resource_name=name, error_code=error_code
    )
    return altered(responses=[each])
