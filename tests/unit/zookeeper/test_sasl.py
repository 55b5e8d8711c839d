"""DIGEST-MD5 against RFC 2831's own example and against a server written from the other side."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.zookeeper.sasl import DIGEST_URI, DigestMd5, SaslError, directives
from tests.kit.laws import examples

NAMES = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12)


def test_the_example_of_the_rfc() -> None:
    client = DigestMd5("chris", "secret", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")
    response = client.respond(
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
        b"algorithm=md5-sess,charset=utf-8"
    )
    assert directives(response)["response"] == "d388dad90d4bbd760a152321f2143af7"
    client.finish(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    with pytest.raises(SaslError, match="does not prove"):
        client.finish(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


def proof(said: dict[str, str], username: str, password: str, method: str) -> str:
    """What the server computes, step by step as in RFC 2831, 2.1.2.1."""

    def hashed(data: bytes) -> bytes:
        return hashlib.md5(data).digest()

    def narrow(text: str) -> bytes:
        return text.encode("latin-1" if max(text) <= "ÿ" else "utf-8")

    user = b":".join((narrow(username), said["realm"].encode(), narrow(password)))
    a1 = hashed(user) + f":{said['nonce']}:{said['cnonce']}".encode()
    a2 = f"{method}:{DIGEST_URI}".encode()
    keys = f":{said['nonce']}:{said['nc']}:{said['cnonce']}:auth:".encode()
    return hashed(hashed(a1).hex().encode() + keys + hashed(a2).hex().encode()).hex()


@given(username=NAMES, password=NAMES)
@examples(60)
def test_whoever_knows_the_password_is_believed_by_both(username: str, password: str) -> None:
    client = DigestMd5(username, password, "c0ffee")
    challenge = b'realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess'
    said = directives(client.respond(challenge))
    assert said["username"] == username
    assert said["digest-uri"] == DIGEST_URI
    assert said["response"] == proof(said, username, password, "AUTHENTICATE")
    client.finish(b"rspauth=" + proof(said, username, password, "").encode())
    with pytest.raises(SaslError):
        client.finish(b"rspauth=" + proof(said, username, password + "x", "").encode())


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b'realm="r",algorithm=md5-sess', "no nonce"),
        (b'nonce="n"', "expected 'md5-sess'"),
        (b'nonce="n",algorithm=md5-sess,qop="auth-conf"', "expected 'auth'"),
        (b"nonsense", "cannot be read at 0"),
        (b'nonce="n', "cannot be read at 0"),
        (b"\xff", "challenge"),
    ],
)
def test_a_challenge_that_is_none(challenge: bytes, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        DigestMd5("u", "p", "c").respond(challenge)


def test_a_proof_before_the_challenge_is_none() -> None:
    with pytest.raises(SaslError):
        DigestMd5("u", "p", "c").finish(b"rspauth=")
