"""Replaces the names in a dump, and in brokers' files, by others; the table of them is kept apart.

Names are of topics, users, clients, groups, transactional ids, tokens, hosts, addresses, racks,
listeners and the cluster; besides every text that is neither a number nor a word of Kafka's. What
is not Kafka's in the tree is left out, and so are notifications and old consumers: nothing of it is
migrated. What is malformed stays malformed, and is cut to its first byte.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
import uuid
from collections.abc import Collection, Mapping
from typing import Any, Final

from emulator.servers.zk_dump import REDACTED, contents, is_secret_config

Table = dict[str, dict[str, str]]
"""Kind -> name -> what stands for it."""
_KAFKAS: Final = frozenset(
    {
        "<default>",
        "*",
        "kafka-cluster",
        "ANONYMOUS",
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "PLAINTEXT",
        "SSL",
        "SASL_PLAINTEXT",
        "SASL_SSL",
        "kraft-bridge",
        "kraft-bridge rollback",
    }
)
"""Names that Kafka itself gives."""
_PLAIN: Final = re.compile(
    r"|true|false"
    r"|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"|\d\.\d+(?:-IV\d+)?"
    r"|\d+(?::\d+)?(?:,\d+(?::\d+)?)*"
    r"|(?:org\.apache\.)?kafka\.[\w.$]+"
)
"""Numbers, releases, lists of replicas, classes of Kafka's."""
_WORDS: Final = frozenset(
    "delete compact producer uncompressed none gzip snappy lz4 zstd CreateTime LogAppendTime "
    "required requested Allow Deny All Any Read Write Create Delete Alter Describe ClusterAction "
    "DescribeConfigs AlterConfigs IdempotentWrite CreateTokens DescribeTokens Literal Prefixed "
    "LITERAL PREFIXED".split()
)
_OF_ACLS: Final = {
    "Topic": "topic",
    "Group": "group",
    "Cluster": "cluster",
    "TransactionalId": "transaction",
    "DelegationToken": "token",
    "User": "user",
}
_PLACES: Final = tuple(
    place.split("/")[1:]
    for place in (
        "/cluster/id",
        "/controller",
        "/controller_epoch",
        "/feature",
        "/migration",
        "/kraft_bridge",
        "/latest_producer_id_block",
        "/consumers",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/brokers/ids/{number}",
        "/brokers/seqid",
        "/brokers/topics/{topic}/partitions/{number}/state",
        "/admin/delete_topics/{topic}",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/config/changes",
        "/config/brokers/{number}",
        "/config/topics/{topic}",
        "/config/clients/{client}",
        "/config/ips/{address}",
        "/config/users/{user}/clients/{client}",
        "/kafka-acl-changes",
        "/kafka-acl-extended-changes",
        "/delegation_token/token_changes",
        "/delegation_token/tokens/{token}",
        *(f"/kafka-acl/{kind}/{{{name}}}" for kind, name in _OF_ACLS.items()),
        *(f"/kafka-acl-extended/prefixed/{kind}/{{prefix}}" for kind in _OF_ACLS),
    )
)
"""Where Kafka keeps what is migrated, and what it expects to be there; the other places go."""
_KEYS: Final = {
    "topic": "topic",
    "rack": "rack",
    "host": "host",
    "tokenId": "token",
}
"""Key of a znode's JSON -> kind of the name that it has."""
_OF_KAFKA: Final = frozenset(
    "version partitions topic_id adding_replicas removing_replicas leader leader_epoch isr "
    "controller_epoch leader_recovery_state topic partition replicas log_dirs rack host port "
    "jmx_port endpoints listener_security_protocol_map features timestamp id broker block_start "
    "block_end status min_version_level max_version_level config acls principal permissionType "
    "operation owner tokenRequester renewers issueTimestamp maxTimestamp expiryTimestamp tokenId "
    "hmac kraft_controller_id kraft_controller_epoch kraft_metadata_offset kraft_metadata_epoch "
    "brokerid kraftControllerEpoch node_id kraft_epoch zk_epoch sequence offset metadata_epoch "
    "part reconciling incarnation digest log_offset epoch_created format writer".split()
)
"""Keys of the JSON of znodes."""
_RANDOM: Final = frozenset({"incarnation", "digest", "hmac"})
"""Keys of what names nobody: random numbers, digests; a secret is another matter."""
_OF_CONFIG: Final = re.compile(
    r"(?:listener\.name\.(?P<name>[^.]+)\.)?"
    r"(?P<mechanism>(?:plain|gssapi|oauthbearer|scram-sha-\d+)\.)?"
    r"(?P<own>.+?)(?P<left>\.left\.out)?"
)
"""A config; ``left``: as ``bench.rehearsal.secrets`` renames passwords."""
_SCRAM: Final = re.compile(r"SCRAM-SHA-\d+")
_PRINCIPALS: Final = frozenset({"principal", "owner", "tokenRequester", "renewers"})
_TOPIC_ID: Final = re.compile(r"[\w-]{22}")
_LIST: Final = re.compile(r"\s*,\s*")


class TableError(ValueError):
    """A file is not a table of names; one sentence."""


class Names:
    """Gives each name another one, always the same.

    Args:
        table: of an earlier rehearsal; it is added to.
        texts: all that is given: what occurs in it never stands for another name.
        configs: the names of all configs of Kafka's.
        secrets: they stay; else there is none.
    """

    def __init__(
        self, table: Table, texts: str, configs: Collection[str], *, secrets: bool = False
    ) -> None:
        self.table = table
        self._configs = configs
        self._secrets = secrets
        self._given = frozenset(re.findall(r"[\w.-]+", texts))
        self._taken = {one for some in table.values() for one in some.values()}

    def of(self, kind: str, name: str) -> str:
        """What stands for a name."""
        if name in _KAFKAS or not name:
            return name
        known = self.table.setdefault(kind, {})
        if name not in known:
            known[name] = self._new(kind)
        return known[name]

    def _new(self, kind: str) -> str:
        if kind == "cluster":
            return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        number = len(self.table[kind])
        while True:
            number += 1
            made = _made(kind, number)
            if made not in self._given and made not in self._taken:
                self._taken.add(made)
                return made

    # ---------------------------------------------------------------- znodes
    def path(self, path: str) -> str | None:
        """The path of a znode; None: it is left out."""
        parts = path.split("/")[1:]
        for place in _PLACES:
            if len(parts) <= len(place) and all(map(_fits, parts, place)):
                return "/" + "/".join(map(self._part, parts, place))
        return None

    def _part(self, part: str, place: str) -> str:
        if not place.startswith("{"):
            return part
        kind = place.strip("{}")
        if kind == "number":
            return part if part.isdecimal() else self.of("znode", part)
        name = urllib.parse.unquote(part)
        return self.of(kind, name if urllib.parse.quote(name, safe="") == part else part)

    def data(self, path: str, data: bytes | None) -> bytes | None:
        """The data of a znode, by the path that it had."""
        if not data or data == REDACTED.encode():
            return data
        try:
            found = json.loads(data)
            if path == "/cluster/id" and isinstance(found, dict):
                found["id"] = self.of("cluster", str(found.get("id") or ""))
                return _written(found)
            return _written(self._value("", found))
        except (ValueError, RecursionError):
            return b"{"

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(key, name): self._value(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._value(key, one) for one in value]
        return self.text(key, value) if isinstance(value, str) else value

    def _key(self, above: str, key: str) -> str:
        if above == "listener_security_protocol_map":
            return self.of("listener", key)
        if above == "config":
            return self._config(key)
        known = key in _OF_KAFKA or key.isdecimal() or above == "features"
        return key if known else self.of("key", key)

    def _config(self, key: str) -> str:
        """The key of a config; its listener has another name, and what is not Kafka's too."""
        found = _OF_CONFIG.fullmatch(key)
        if found is None or not (_SCRAM.fullmatch(key) or found["own"] in self._configs):
            return self.of("config", key)
        name, mechanism = found["name"], found["mechanism"] or ""
        before = "" if name is None else f"listener.name.{self.of('listener', name.upper())}."
        return f"{before.lower()}{mechanism}{found['own']}{found['left'] or ''}"

    def text(self, key: str, value: str) -> str:
        """A text of the JSON of a znode, or a value of a file."""
        if key == "endpoints":
            return self._endpoint(value)
        if key in _PRINCIPALS:
            return f"User:{self.of('user', value.removeprefix('User:'))}"
        if key in _KEYS:
            return self.of(_KEYS[key], value)
        secret = self._secrets and is_secret_config(key)
        return value if secret or _plain(key, value) else self.of("text", value)

    def _endpoint(self, value: str) -> str:
        name, _, rest = value.partition("://")
        host, _, port = rest.rpartition(":")
        return f"{self.of('listener', name)}://{self.of('host', host)}:{port}"

    def rule(self, rule: list[Any]) -> list[Any]:
        """An access rule of ZooKeeper."""
        perms, scheme, name = rule
        return [perms, scheme, name if scheme == "world" else self.of("user", str(name))]

    # ---------------------------------------------------------------- files
    def values(self, values: Mapping[str, str]) -> dict[str, str]:
        """The properties of a broker's file that a rehearsal takes from it."""
        return {self._config(key): self._property(key, one) for key, one in values.items()}

    def _property(self, key: str, value: str) -> str:
        if key in {"listeners", "advertised.listeners"}:
            return ",".join(self._endpoint(one) for one in _LIST.split(value.strip()))
        if key == "inter.broker.listener.name":
            return self.of("listener", value.strip().upper())
        if key == "broker.rack":
            return self.of("rack", value.strip())
        return self.text(key, value.strip())


def _fits(part: str, place: str) -> bool:
    return place.startswith("{") or part == place


def _made(kind: str, number: int) -> str:
    if kind == "address":
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return f"LISTENER{number}" if kind == "listener" else f"{kind}-{number}"


def _plain(key: str, value: str) -> bool:
    """Whether a text names nobody."""
    if key == "topic_id":
        return bool(_TOPIC_ID.fullmatch(value))
    if (
        value == REDACTED
        or key in _RANDOM
        or key.startswith("SCRAM-")
        or "encryptedPassword:" in value
    ):
        return True  # secrets are another matter
    words = value.split(",")
    return bool(_PLAIN.fullmatch(value)) or all(one in _WORDS or one in _KAFKAS for one in words)


def _written(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def anonymised(document: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A dump without names.

    Args:
        document: as ``zk dump`` prints it.
        names: is asked for each.
    """
    data = contents(document)
    nodes: dict[str, dict[str, Any]] = {}
    for path, entry in document["nodes"].items():
        if (place := names.path(path)) is None:
            continue
        held = names.data(path, data[path])
        shown: dict[str, Any] = {"null": True} if held is None else {"text": held.decode()}
        rules = [names.rule(one) for one in entry.get("acl", ())]
        kept = {key: one for key, one in entry.items() if key not in {"null", "text", "b64"}}
        nodes[place] = {**kept, **({"acl": rules} if rules else {}), **shown}
    return {"note": "", "time": document.get("time", 0.0), "count": len(nodes), "nodes": nodes}


def read(text: str) -> Table:
    """The table in a file.

    Raises:
        TableError: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError("it is no table of names, and is not written over") from error
    if not isinstance(found, dict) or not all(map(_is_part, found.values())):
        raise TableError("it is no table of names, and is not written over")
    return found


def _is_part(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def written(table: Table) -> str:
    """A table as the text of a file."""
    return json.dumps(table, indent=1, sort_keys=True) + "\n"
