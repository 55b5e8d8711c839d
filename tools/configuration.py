"""docs/configuration.md: every key of ours, and every key of Kafka that is read.

Which keys are read, and their defaults, is found by reading example files with the code itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from unittest import mock

from emulator.config import unknown
from emulator.config.broker import load_broker
from emulator.config.confidential import is_secret
from emulator.config.listeners import METRICS_PORT, Listener
from emulator.config.load import ConfigError, load
from emulator.config.reading import PropertyReader
from emulator.config.unknown import OWN_PREFIX
from emulator.config.zookeeper import DIGEST_MODULE, JAAS
from emulator.config.zookeeper_mode import InterBrokerProtocol

_TLS: Final = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    "zookeeper.ssl.keystore.location": "k.pem",
    "zookeeper.ssl.truststore.location": "t.pem",
}
_ZOOKEEPER: Final = {
    "zookeeper.connect": "h:2181",
    "zookeeper.metadata.migration.enable": "true",
    JAAS: f'Client {{ {DIGEST_MODULE} required username="u" password="p"; }};',
}
_CONTROLLER: Final = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@h:9093",
    "listeners": "CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "d",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
_BROKER: Final = {
    "node.id": "1",
    "controller.quorum.voters": "3000@h:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "d",
}
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECURED: Final = {
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SASL_SSL:SASL_SSL",
    "security.inter.broker.protocol": "SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "ssl.keystore.location": "k.p12",
    "ssl.truststore.location": "t.p12",
    **{
        f"listener.name.{name}.plain.sasl.jaas.config": (
            f'{_MODULE} required username="u" password="p" user_u="p";'
        )
        for name in ("controller", "sasl_ssl")
    },
}
_CONTROLLERS: Final = (
    _CONTROLLER,
    _CONTROLLER | _ZOOKEEPER | _TLS,
    _CONTROLLER | _SECURED,
)
_BROKERS: Final = (
    {
        **_BROKER,
        "process.roles": "broker",
        "authorizer.class.name": _CONTROLLER["authorizer.class.name"],
    },
    _BROKER | _ZOOKEEPER | _TLS,
    {**_BROKER, **_SECURED, "process.roles": "broker", "listeners": "SASL_SSL://h:9092"},
)
_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.")
_ONE_LISTENER: Final = "listener.name.NAME."

OURS: Final[Mapping[str, str]] = {
    "kraftbridge.faults.enable": (
        "[scripts of faults](testing.md) may be set over HTTP, at `kraftbridge.metrics.port`"
    ),
    "kraftbridge.finalization": (
        "when a controller without the migration flag [finalises](finalising.md): when "
        "`every-voter` is without it, or as `kafka`, at once"
    ),
    "kraftbridge.finalise.hold": (
        "whether it waits for [`kraft-bridge finalise --yes`](finalising.md)"
    ),
    "kraftbridge.kip590.strict.versions": (
        "request versions as KIP-590 has them ([divergence](divergence.md#the-broker))"
    ),
    "kraftbridge.metrics.port": (
        "port of the live page, `/metrics`, `/status`, `/livez` and `/readyz` on the host of the "
        "(first) listener; 0: any free one; -1 or empty: none. One that cannot be bound is logged "
        "and tried again every 5 s. Without it a controller takes 9404 on 127.0.0.1, or a free "
        "port there if that is taken; the file `status.url` in its folder has the address"
    ),
    "kraftbridge.metrics.hosts": (
        "more names and addresses by which that port may be asked, such as `kafka1.example.com,"
        "10.0.0.5` ([why](../SECURITY.md#the-header-host))"
    ),
    "kraftbridge.release": "the Kafka release whose API versions are spoken",
    "kraftbridge.trace.dir": "folder for a [trace](your-own-cluster.md) (Parquet); empty: none",
    "kraftbridge.trace.max.bytes": (
        "what the node's files there may take, of all its runs: then the "
        "[oldest go](bench.md#the-files-of-a-trace); 0: no limit"
    ),
    "kraftbridge.trace.run.id": (
        "id of the run in the trace, the same for all processes of it; empty: the time of the start"
    ),
    "kraftbridge.zk.write.behind.hard.max.records": (
        "second bound of records not in ZooKeeper: ISR changes and deletions wait too; 0:"
        " none; by default twice the first"
    ),
    "kraftbridge.zk.write.behind.max.age.ms": (
        "bound of the age of the oldest change not in ZooKeeper; 0: none"
    ),
    "kraftbridge.zk.write.behind.max.bytes": "bound of bytes not in ZooKeeper; 0: none",
    "kraftbridge.zk.write.behind.max.records": (
        "bound of records not in ZooKeeper: [callers wait](blocking.md) beyond it; 0: none"
    ),
    "kraftbridge.zk.write.behind.multi.ops": "most operations in one transaction of ZooKeeper",
    "kraftbridge.zk.write.behind.poison": (
        "what happens at a znode that ZooKeeper refuses for ever: `block` everything "
        "after it, or `skip` it"
    ),
    "kraftbridge.zookeeper.digest": (
        "`user:password` of ZooKeeper's scheme `digest`, besides the login"
    ),
    "kraftbridge.zookeeper.jaas.config": (
        "JAAS file for the login to ZooKeeper: its path, or its text"
    ),
    "kraftbridge.zookeeper.sasl.clientconfig": "section of the JAAS file; `Client` by default",
}
"""Key of ours -> what it does."""


class _Asked(dict[str, str]):
    """Properties that note which keys are asked for."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        super().__init__(raw)
        self.keys_asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.keys_asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.keys_asked.add(str(key))
        return super().__contains__(key)


def read_by(
    read: Callable[[Mapping[str, str]], object], raws: tuple[Mapping[str, str], ...]
) -> dict[str, object]:
    """Keys that a reader of properties asks for, with their defaults (None: no fixed one)."""
    found: dict[str, object] = {}
    take = PropertyReader.take

    def noted(self: PropertyReader, key: str, parse: Callable[[str], Any], default: Any) -> Any:
        found.setdefault(key, default)
        return take(self, key, parse, default)

    for raw in raws:
        asked = _Asked(raw)
        with mock.patch.object(PropertyReader, "take", noted):
            try:
                read(asked)
            except ConfigError as error:
                raise AssertionError(f"an example is wrong: {error}") from error
        for key in asked.keys_asked:
            found.setdefault(key, None)
    return {_LISTENER.sub(_ONE_LISTENER, key): default for key, default in found.items()}


def _without_effect() -> set[str]:
    """Keys that are warned of at the start, as they have no effect."""
    asked = _Asked({})
    list(unknown.warnings(asked))
    return asked.keys_asked


def page_readers() -> tuple[dict[str, object], dict[str, object]]:
    """Keys that a controller and a broker read, with their defaults."""
    controller = read_by(load, _CONTROLLERS)
    for key in _without_effect():
        controller.pop(key, None)
    return controller, read_by(lambda raw: load_broker(raw, "h"), _BROKERS)


def page() -> Iterator[str]:
    """The text of docs/configuration.md."""
    controller, broker = page_readers()
    yield _HEAD
    yield "| key | read by | default | meaning |\n|---|---|---|---|\n"
    for key, meaning in sorted(OURS.items()):
        yield _row(
            f"`{key}`",
            _readers(key, controller, broker),
            _default(key, controller, broker),
            meaning,
        )
    warned = _without_effect() - broker.keys()
    read = {key for key in {*controller, *broker} if not key.startswith(OWN_PREFIX)}
    plain = {key for key in read if _of_listener(key) not in read}
    defaults = {key: _default(key, controller, broker) for key in plain}
    yield _READ
    for key in sorted(key for key, default in defaults.items() if default != "none"):
        yield _row(_named(key, read), _readers(key, controller, broker), defaults[key])
    for who in ("both", "controller", "broker"):
        found = sorted(
            key
            for key, default in defaults.items()
            if default == "none" and _readers(key, controller, broker) == who
        )
        yield f"\nWithout a default, {who}: {', '.join(_named(key, read) for key in found)}.\n"
    yield "\n## Keys of Kafka without effect\n\nOn a controller, named at its start: "
    yield ", ".join(f"`{key}`" for key in sorted(warned)) + ".\n\n"
    yield _REST


_HEAD: Final = """\
# The configuration

A node reads Kafka's own `server.properties`, so most lines are copied from a broker's; `-X
KEY=VALUE` overrides one key. All problems of a file are reported at once, with exit code 2. An
unknown key is a warning that names the most similar known one. It is an error if it begins with
`kraftbridge.`, or is like one of `zookeeper.metadata.migration.*`: a misspelt one would leave the
default in force, or the node without the migration. Next: [an example for a
controller](your-own-cluster.md#3-write-the-controllers-file).

## Keys of kraft-bridge

"""
_READ: Final = """
## Keys of Kafka that are read

Their meaning is Kafka's; [divergence.md](divergence.md) lists what differs. A value that is not
supported is refused with the key's name. A key with * is also read for one listener, with
`listener.name.NAME.` before it.

| key | read by | default |
|---|---|---|
"""
_REST: Final = """\
Every other key of Kafka 3.4 … 3.9 is accepted without a warning and changes nothing here, but what
DescribeConfigs shows. So are keys that begin with `listener.name.`, `sasl.`, `ssl.`, `log4j.` or
`zookeeper.ssl.`.
"""


def _of_listener(key: str) -> str:
    """The same key without the name of a listener; no key if it has none."""
    return key.removeprefix(_ONE_LISTENER) if key.startswith(_ONE_LISTENER) else ""


def _named(key: str, read: set[str]) -> str:
    return f"`{key}`" + (" *" if _ONE_LISTENER + key in read else "")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _readers(key: str, controller: Mapping[str, object], broker: Mapping[str, object]) -> str:
    names = [name for name, keys in (("controller", controller), ("broker", broker)) if key in keys]
    return "both" if len(names) > 1 else ", ".join(names)


def _default(key: str, controller: Mapping[str, object], broker: Mapping[str, object]) -> str:
    """The default of the controller, and that of the broker where it is another one."""
    if is_secret(key):
        return "none"
    if key == METRICS_PORT:
        return "`9404`, none"
    shown = list(dict.fromkeys(_shown(one[key]) for one in (controller, broker) if key in one))
    return ", ".join(shown) or "none"


def _shown(value: object) -> str:
    match value:
        case None | "" | ():
            return "none"
        case bool():
            return str(value).lower()
        case int() if value < 0:
            return "none"
        case str() | int():
            return f"`{value}`"
        case InterBrokerProtocol(text=text):
            return f"`{text}`"
        case (Listener() as one, *_):
            return f"`{one.name}://{one.host}:{one.port}`"
        case ((), ""):
            return "none"
        case _:
            assert not value, f"how is a default of {value!r} shown?"
            return "none"
