"""What a dump hides, and what it leaves as it is."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from kazoo.exceptions import NoAuthError

from emulator.servers.zk_dump import UnreadableError, contents, dump, redact
from tests.kit.reads import Answered, ReadsAtOnce

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


class Closed(ReadsAtOnce):
    """A client of a tree of four znodes, of which it may not read one."""

    CHILDREN: ClassVar = {"/": ["a", "zookeeper"], "/a": ["b", "c"], "/a/b": ["d"], "/a/c": []}

    def start(self, timeout): ...
    def sync(self, path): ...
    def stop(self): ...
    def close(self): ...

    def get(self, path):
        if path == "/a/b":
            raise NoAuthError
        fields = "version cversion czxid mzxid pzxid ctime mtime ephemeralOwner"
        return b"x", SimpleNamespace(**dict.fromkeys(fields.split(), 0))

    def get_acls(self, path):
        return [], None

    def get_children(self, path):
        return self.CHILDREN[path]


def test_a_znode_that_may_not_be_read_is_named():
    with pytest.raises(UnreadableError, match=r"ZooKeeper at h:1: /a/b may not be read .*NoAuth"):
        dump("h:1", connect=lambda _hosts: Closed())


def test_what_may_not_be_read_is_left_out_if_it_is_asked_which():
    closed: list[str] = []
    found = dump("h:1", connect=lambda _hosts: Closed(), closed=closed)
    assert (sorted(found["nodes"]), closed) == (["/a", "/a/c"], ["/a/b"])


class Wide(Closed):
    """A client of many znodes, and how many of its calls were open together."""

    CHILDREN: ClassVar = {"/": [f"n{one:03d}" for one in range(200)]}

    def __init__(self):
        self.open = self.most = 0

    def get_children(self, path):
        return self.CHILDREN.get(path, ["b", "a"] if path.count("/") == 1 else [])

    def get_async(self, path):
        self.open += 1
        self.most = max(self.most, self.open)

        def answer():
            self.open -= 1
            return self.get(path)

        return Answered(answer)


def test_many_znodes_are_asked_for_together_and_are_in_the_order_of_a_tree():
    client = Wide()
    found = dump("h:1", connect=lambda _hosts: client)
    assert [*found["nodes"]] == [
        path for one in client.CHILDREN["/"] for path in (f"/{one}", f"/{one}/a", f"/{one}/b")
    ]
    assert (client.open, client.most) == (0, 32)
