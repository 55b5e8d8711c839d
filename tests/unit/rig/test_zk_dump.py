"""What a dump hides, and what it leaves as it is."""

import pytest

from bench.rig.zk_dump import contents, redact

SCRAM = b'{"version":1,"config":{"SCRAM-SHA-512":"salt=a","producer_byte_rate":"5"}}'
PASSWORD = b'{"version":1,"config":{"listener.name.x.ssl.keystore.password":"p","a":"b"}}'


@pytest.mark.parametrize(
    ("path", "data", "shown"),
    [
        ("/config/users/alice", SCRAM, SCRAM.replace(b"salt=a", b"<redacted>")),
        ("/config/brokers/1", PASSWORD, PASSWORD.replace(b'"p"', b'"<redacted>"')),
        ("/delegation_token/tokens/t", b'{"hmac":"x"}', b'{"hmac":"<redacted>"}'),
        ("/config/users/alice", b"not json", b"<redacted>"),
        # Read from above a chroot, in a list, or under a name given twice.
        ("/a/b/config/users/alice", SCRAM, SCRAM.replace(b"salt=a", b"<redacted>")),
        ("/config/users/a", b'[{"SCRAM-SHA-256":"s"}]', b"<redacted>"),
        (
            "/config/users/a",
            b'{"config":[{"scram-x":"s"}]}',
            b"<redacted>",
        ),
        ("/config/users/a", b'{"version":"s","config":{}}', b"<redacted>"),
        (
            "/config/users/a",
            b'{"config":{"scram-x":"s"}}',
            b'{"config":{"scram-x":"<redacted>"}}',
        ),
        (
            "/config/users/a",
            b'{"config":{"SCRAM-SHA-256":"s"},"config":{}}',
            b'{"config":{}}',
        ),
        ("/config/brokers/1", b"[" * 100_000, b"<redacted>"),
        ("/config/brokers/1", b'"secret"', b"<redacted>"),
        # A folder, as any client may have made it, hides nothing.
        ("/config/users/alice/clients", b"", b""),
        # Nothing secret: the very bytes, spaces and order and all.
        ("/config/users/bob", b'{ "version":1, "config":{} }', b'{ "version":1, "config":{} }'),
        ("/config/topics/t", b"anything", b"anything"),
        ("/brokers/topics/password", b"\xff", b"\xff"),
    ],
)
def test_redact(path, data, shown):
    assert redact(path, data) == shown


def test_contents_keeps_null_apart_from_empty():
    nodes = {"/a": {"null": True}, "/b": {"text": ""}, "/c": {"b64": "/w=="}}
    assert contents({"nodes": nodes}) == {"/a": None, "/b": b"", "/c": b"\xff"}
