"""DIGEST-MD5, the client side: answers two challenges with two tokens. Pure.

Only what ZooKeeper needs: quality of protection ``auth``, one attempt. Source: RFC 2831; ZooKeeper
3.9.5 SecurityUtils.createSaslClient, which fixes protocol and server name on both sides.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

MECHANISM: Final = "DIGEST-MD5"
DIGEST_URI: Final = "zookeeper/zk-sasl-md5"
"""Service and host: fixed values in place of the server's name."""
_DIRECTIVE: Final = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s,"]*))\s*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class SaslError(ValueError):
    """The server's token is invalid, or proves that it does not know the password."""


def directives(token: bytes) -> dict[str, str]:
    """Parse a challenge.

    Raises:
        SaslError: not ``key=value, …``.

    >>> directives(b'realm="zk-sasl-md5",nonce="a,b",charset=utf-8')["nonce"]
    'a,b'
    """
    try:
        text = token.decode()
    except UnicodeDecodeError as error:
        raise SaslError(f"challenge: {error}") from error
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise SaslError(f"challenge of {len(token)} bytes cannot be read at {at}")
        key, quoted, plain = match.groups()
        found[key.lower()] = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
        at = match.end()
    return found


class DigestMd5:
    """One login.

    Args:
        username: the user.
        password: known to both sides.
        cnonce: never used twice; printable, without quotes.
        digest_uri: service/host.
    """

    def __init__(
        self, username: str, password: str, cnonce: str, digest_uri: str = DIGEST_URI
    ) -> None:
        self._username = username
        self._password = password
        self._cnonce = cnonce
        self._digest_uri = digest_uri
        self._expected = ""

    def respond(self, challenge: bytes) -> bytes:
        """Answer the server's first token.

        Raises:
            SaslError: it offers no realm or nonce, or neither ``auth`` nor ``md5-sess``.
        """
        offered = directives(challenge)
        nonce = offered.get("nonce")
        if not nonce:
            raise SaslError("the challenge has no nonce")
        if offered.get("algorithm", "").lower() != "md5-sess":
            raise SaslError(f"algorithm {offered.get('algorithm')!r}, expected 'md5-sess'")
        if "auth" not in re.split(r"[\s,]+", offered.get("qop", "auth").lower()):
            raise SaslError(f"qop {offered['qop']!r}, expected 'auth'")
        realm = offered.get("realm", "")
        utf8 = offered.get("charset", "").lower() == "utf-8"
        secret = hashlib.md5(  # noqa: S324 - the mechanism is made of it
            b":".join(_narrow(part, utf8=utf8) for part in (self._username, realm, self._password))
        ).digest()
        tail = f":{nonce}:{self._cnonce}".encode()
        a1 = hashlib.md5(secret + tail).hexdigest()  # noqa: S324 - as above
        between = f"{nonce}:00000001:{self._cnonce}:auth"
        response = _keyed(a1, between, f"AUTHENTICATE:{self._digest_uri}")
        self._expected = _keyed(a1, between, f":{self._digest_uri}")
        parts = [
            f"username={_quoted(self._username)}",
            f"realm={_quoted(realm)}",
            f"nonce={_quoted(nonce)}",
            f"cnonce={_quoted(self._cnonce)}",
            "nc=00000001",
            "qop=auth",
            f"digest-uri={_quoted(self._digest_uri)}",
            f"response={response}",
        ]
        if utf8:
            parts.insert(0, "charset=utf-8")
        return ",".join(parts).encode("utf-8" if utf8 else "latin-1", "replace")

    def finish(self, final: bytes) -> None:
        """Take the server's last token, which proves that it knows the password too.

        Raises:
            SaslError: it does not.
        """
        proof = directives(final).get("rspauth", "")
        if not self._expected or not hmac.compare_digest(proof, self._expected):
            raise SaslError("the server does not prove that it knows the password")


def _narrow(text: str, *, utf8: bool) -> bytes:
    """RFC 2831, 2.1.2.1: text that fits is hashed as ISO 8859-1, even with charset UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode() if utf8 else text.encode("latin-1", "replace")


def _keyed(a1: str, between: str, a2: str) -> str:
    inner = hashlib.md5(a2.encode()).hexdigest()  # noqa: S324 - as above
    return hashlib.md5(f"{a1}:{between}:{inner}".encode()).hexdigest()  # noqa: S324 - as above


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
