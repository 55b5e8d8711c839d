"""The headers of requests and responses.

The client id keeps its classic length prefix in version 2. Source: RequestHeader, ResponseHeader,
Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, field, header


@header(versions="0-2", flexible="2+")
class RequestHeader:
    api_key: Int16 = 0
    api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: String | None = field("", versions="1+", ignorable=True, flexible=False)


@header(versions="0-1", flexible="1+")
class ResponseHeader:
    correlation_id: Int32 = 0
