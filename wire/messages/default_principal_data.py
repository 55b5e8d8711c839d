"""Who sent a forwarded request, as an Envelope carries it.

The bytes are an int16 version before the body. KIP-590. Source: DefaultPrincipalData, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, String, data


@data(versions="0", flexible="0+")
class DefaultPrincipalData:
    type: String = ""
    name: String = ""
    token_authenticated: Bool = False
