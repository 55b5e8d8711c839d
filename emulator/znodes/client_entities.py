"""``/config/users``, ``/config/clients``, ``/config/ips``: client quotas and SCRAM credentials.

A user's quotas and credentials share one znode, so either is written with the other. When all of
them are removed, the znode stays with an empty config, as in Kafka. Names are percent-encoded; the
default entity is the znode ``<default>``, which no encoded name equals.

Kafka 3.9 loses the removal of the last quota of an ip, a client id or a user with a client id: its
writer fails on the entity that is not in the image any more, and the quota stays in force in
ZooKeeper. It also writes every entity in each full sync, changed or not, with a notification for
each.

Source: ZkConfigMigrationClient.{iterateClientQuotas,writeClientQuotas};
KRaftMigrationZkWriter.{handleClientQuotasSnapshot,handleClientQuotasDelta}, Kafka 3.9.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from heapq import heapify, heappop, merge
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote_plus

from emulator.config import java_text
from emulator.metadata import client_quotas, scram
from emulator.metadata.client_quotas import CLIENT_ID, IP, USER, Entity, EntityPart
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.scram import Credential, Mechanism
from emulator.znodes import configs
from emulator.znodes.entity import NO_FOLDERS, Nodes, Record, Refusal, RefusalKind
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import require_short
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp
from wire import records as r

# SCRAM credentials as text in the config of a user.
#
# Source: ScramCredentialUtils, Kafka 3.9.

NAMES: Final = {mechanism.mechanism_name: mechanism for mechanism in Mechanism}
"""Config keys that are not quotas."""

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


def parse_scram(text: str) -> Credential:
    """Read a credential.

    Raises:
        ValueError: not the four fields, or one of them malformed. The text itself, which is
            secret, is not quoted.
    """
    pairs = dict(_pair(part) for part in text.rstrip(",").split(","))
    if pairs.keys() != set(_FIELDS):
        raise ValueError(f"a credential has the fields {', '.join(_FIELDS)}")
    iterations = pairs["iterations"]
    if not re.fullmatch(r"\+?[0-9]{1,10}", iterations) or not 0 < int(iterations) < 2**31:
        raise ValueError(f"iterations {iterations[:20]!r} is no number of iterations")
    salt, stored, server = (_bytes(name, pairs[name]) for name in _FIELDS[:3])
    return Credential(salt, stored, server, int(iterations))


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name:
        raise ValueError("a credential consists of name=value, separated by commas")
    return name, value


def _bytes(name: str, text: str) -> bytes:
    padded = text if text.endswith("=") else text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except ValueError:
        raise ValueError(f"{name} is not base64") from None


def render_scram(credential: Credential) -> str:
    """Write a credential.

    >>> render_scram(Credential(b"a", b"b", b"c", 4096))
    'salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=4096'
    """
    salt, stored, server = (
        base64.b64encode(one).decode()
        for one in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


# Quotas as text: the keys, how Kafka's brokers parse their values, and how we write them.
#
# Source: QuotaConfigs.{scramMechanismsPlusUserAndClientQuotaConfigs,ipConfigs};
# ZkAdminManager.clientQuotaPropsToDoubleMap; ZkConfigMigrationClient.writeClientQuotas, Kafka 3.9.


class NumberType(Enum):
    """Number format of a value."""

    INT = 2**31 - 1
    LONG = 2**63 - 1
    DOUBLE = 0


USER_AND_CLIENT_KEYS: Final = {
    "producer_byte_rate": NumberType.LONG,
    "consumer_byte_rate": NumberType.LONG,
    "request_percentage": NumberType.DOUBLE,
    "controller_mutation_rate": NumberType.DOUBLE,
}
IP_KEYS: Final = {"connection_creation_rate": NumberType.INT}
TYPES: Final = USER_AND_CLIENT_KEYS | IP_KEYS

EPSILON: Final = 1e-6
"""Maximum distance of a value from the whole number that it means."""


def parse_quota(text: str) -> float:
    """Read a number as a broker does.

    Raises:
        ValueError: not a number. NaN, which brokers take, is refused too: it is equal to nothing,
            so no comparison of it with the log would end.
    """
    try:
        number = java_text.double(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{text[:100]!r} is not a number")
    return number


def checked(key: str, text: str) -> float:
    """Read the value of a known key, as :func:`render_quota` can write it again.

    Raises:
        ValueError: not a number, or not of the key's type.
    """
    number, kind = parse_quota(text), TYPES[key]
    if kind is not NumberType.DOUBLE and _whole(number, kind) is None:
        raise ValueError(
            f"{text[:100]!r} is not {'an' if kind is NumberType.INT else 'a'} {kind.name} value"
        )
    return number


def render_quota(key: str, number: float) -> str:
    """Write a value: whole numbers without a point where Kafka declares them so.

    A value that does not fit its type, or of an unknown key, is written as a Java double; Kafka 3.9
    drops the whole change then.

    >>> render_quota("producer_byte_rate", 1024.0), render_quota("request_percentage", 3.0)
    ('1024', '3.0')
    """
    kind = TYPES.get(key, NumberType.DOUBLE)
    whole = None if kind is NumberType.DOUBLE else _whole(number, kind)
    return java_double(number) if whole is None else str(whole)


def _whole(number: float, kind: NumberType) -> int | None:
    if not math.isfinite(number):
        return None
    limit = kind.value
    whole = min(max(int(number + EPSILON), -limit - 1), limit)
    return whole if abs(float(whole) - number) <= EPSILON else None


def java_double(number: float) -> str:
    """Write a number as Java's Double.toString does.

    >>> [java_double(n) for n in (55.5, 1e10, 0.001, 0.00012, 9999999.0, 12345678.9)]
    ['55.5', '1.0E10', '0.001', '1.2E-4', '9999999.0', '1.23456789E7']
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if number == 0:
        return sign + "0.0"
    # The shortest digits that parse to the same number, and the position of the point.
    digits, exponent = _digits(abs(number))
    if 1e-3 <= abs(number) < 1e7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        whole = digits[:exponent].ljust(exponent, "0")
        return f"{sign}{whole}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(number: float) -> tuple[str, int]:
    """Digits d and exponent e with number = 0.d times ten to the e."""
    mantissa, _, power = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    return digits.rstrip("0"), len(whole) - leading + int(power or 0)


USERS: Final = "/config/users"
CLIENTS: Final = "/config/clients"
IPS: Final = "/config/ips"
EMPTY: Final = configs.config_data({})

_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ROOTS: Final = {USER: USERS, CLIENT_ID: CLIENTS, IP: IPS}
T = TypeVar("T")
Parts: TypeAlias = tuple[EntityPart, ...]
"""Parts of an entity in the order of the path, which is also the order in Kafka's records."""


def znode_name(part: EntityPart) -> str:
    """Name of the znode of one part.

    ``.`` and ``..`` are escaped too, which Kafka leaves as they are and ZooKeeper then refuses. An
    IPv6 address is not encoded: brokers do not decode names of ips, and a broker that reads Kafka's
    ``%3A%3A1`` does not start (IpConfigHandler).

    >>> znode_name(EntityPart("user", False, "CN=a *")), znode_name(EntityPart("ip", True, ""))
    ('CN%3Da%20%2A', '<default>')
    """
    if part.is_default:
        return configs.DEFAULT
    name = quote(part.name, safe="-._:[]" if part.type == IP else "-._").replace("~", "%7E")
    return name.replace(".", "%2E") if name in {".", ".."} else name


def _part(path: str, kind: str, name: str) -> EntityPart:
    if name == configs.DEFAULT:
        return EntityPart.of(kind, None)
    try:
        # URLDecoder reads a plus sign as a blank, and refuses a percent sign without two digits.
        decoded = unquote_plus(name, errors="strict")
    except ValueError:
        decoded = None
    if decoded is None or _BROKEN_ESCAPE.search(name):
        raise ZnodeError(path, f"the name {name!r} is not percent-encoded UTF-8")
    require_short(path, "the name", decoded)
    return EntityPart.of(kind, decoded)


def entity_path(entity: Parts) -> str | None:
    """Path of an entity's znode; None for entities without a znode in Kafka.

    >>> entity_path(client_quotas.entity([("client-id", "c"), ("user", None)]))
    '/config/users/<default>/clients/c'
    """
    names = {part.type: znode_name(part) for part in entity}
    if not all(names.values()):
        return None
    match sorted(names):
        case ["client-id", "user"]:
            return f"{USERS}/{names[USER]}/clients/{names[CLIENT_ID]}"
        case [("user" | "client-id" | "ip") as kind]:
            return f"{_ROOTS[kind]}/{names[kind]}"
        case _:
            return None


def parts_of(path: str) -> Parts | None:
    """The entity of a znode path; None for a folder and for znodes that are not Kafka's.

    Raises:
        ZnodeError: a name that cannot be decoded.
    """
    match path.split("/")[2:]:
        case ["users", user]:
            return (_part(path, USER, user),)
        case ["clients", client]:
            return (_part(path, CLIENT_ID, client),)
        case ["users", user, "clients", client]:
            return (_part(path, USER, user), _part(path, CLIENT_ID, client))
        case ["ips", ip]:
            return (_part(path, IP, ip),)
        case _:
            return None


def _usual(path: str) -> str | None:
    """The path at which Kafka reads the entity of a znode; None for an undecodable name.

    >>> _usual("/config/users/a+b"), _usual("/config/users/%c3%a9/clients/c")
    ('/config/users/a%20b', '/config/users/%C3%A9/clients/c')
    """
    try:
        parts = parts_of(path)
    except ZnodeError:
        return None
    return None if parts is None else entity_path(parts)


class EntityProperties(NamedTuple):
    """The parsed config of one entity."""

    quotas: dict[str, float]
    credentials: dict[Mechanism, Credential]


def parse(path: str, data: bytes | None) -> EntityProperties:
    """Read the znode of an entity.

    Raises:
        ZnodeError: malformed, a key that is neither a quota of this kind of entity nor a SCRAM
            mechanism, a value that is no number of the key's type, or a malformed credential.
    """
    found = EntityProperties({}, {})
    known, mechanisms = _keys(path)
    for key, value in configs.parse(path, data).items():
        if key not in known and key not in mechanisms:
            why = f"{key[:100]!r} is none of the keys {', '.join([*known, *mechanisms])}"
            raise ZnodeError(path, why)
        try:
            if key in mechanisms:
                found.credentials[mechanisms[key]] = parse_scram(value)
            else:
                found.quotas[key] = checked(key, value)
        except ValueError as error:
            raise ZnodeError(path, f"{key}: {error}") from error
    return found


def _keys(path: str) -> tuple[Mapping[str, object], Mapping[str, Mechanism]]:
    if path.startswith(IPS):
        return IP_KEYS, {}
    user_alone = path.startswith(USERS) and path.count("/") == 3
    return USER_AND_CLIENT_KEYS, NAMES if user_alone else {}


def data_of(image: Image, entity: Entity) -> bytes | None:
    """Data of an entity's znode; None when the image does not have the entity."""
    limits = image.client_quotas.get(entity) or client_quotas.NONE
    config = {key: render_quota(key, limit) for key, limit in limits.items()}
    if len(entity) == 1 and entity[0].type == USER and not entity[0].is_default:
        for name, mechanism in NAMES.items():
            credential = image.scram_credentials.get((entity[0].name, mechanism))
            if credential is not None:
                config[name] = render_scram(credential)
    return configs.config_data(config) if config else None


class ClientEntities:
    """Client quotas and SCRAM credentials. A key is an entity, a user's for its credentials."""

    name = "client_entities"
    roots = (USERS, CLIENTS, IPS)
    folders = NO_FOLDERS

    def owns(self, path: str) -> bool:
        """The znode of an entity, whatever its name."""
        match path.split("/")[1:]:
            case ["config", "users" | "clients" | "ips", _] | ["config", "users", _, "clients", _]:
                return True
            case _:
                return False

    def refusals(self, tree: Tree, version: MetadataVersion) -> Iterator[Refusal | None]:
        """Malformed znodes, two of one entity, credentials below metadata.version 11."""
        seen: dict[Parts, str] = {}
        for path in self._paths(tree):
            try:
                found = parse(path, tree.data(path))
                parts = parts_of(path)
            except ZnodeError as error:
                yield Refusal.of(error)
                continue
            other = seen.setdefault(parts or (), path)
            if other != path and any(found):
                yield Refusal(RefusalKind.MALFORMED, path, f"stands for the same entity as {other}")
            elif found.credentials and not version.supports(Feature.SCRAM):
                why = f"SCRAM credentials need metadata.version 11 (3.5-IV2), not {version.level}"
                yield Refusal(RefusalKind.METADATA_VERSION, path, why)
            else:
                yield None

    def records(self, tree: Tree, _image: Image) -> Iterator[Iterable[Record]]:
        """Per entity its credentials, then its quotas."""
        for path in self._paths(tree):
            parts = parts_of(path)
            if parts is not None:
                yield _records(parts, parse(path, tree.data(path)))

    def leftovers(self, image: Image) -> Iterator[Record]:
        """One removal per credential and per quota."""
        for name, mechanism in image.scram_credentials:
            yield r.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
        for entity, limits in image.client_quotas.items():
            for key in limits:
                yield client_quotas.record_of(entity, key, None)

    def keys(self, image: Image) -> Iterator[Entity]:
        """Every entity with quotas or credentials."""
        users = (_user(name) for name, _ in image.scram_credentials)
        return _each_once(image.client_quotas, users)

    def touched(self, touched: Touched) -> Iterator[Entity]:
        """Every entity whose quotas or credentials records touched."""
        names = _ascending([name for name, _ in touched.scram_credentials])
        return _each_once(_ascending(touched.client_quotas), map(_user, names))

    def nodes(self, image: Image, key: Entity) -> Nodes:
        """The entity's znode, with all its quotas and credentials."""
        path, data = entity_path(key), data_of(image, key)
        return {} if path is None or data is None else {path: data}

    def same(self, path: str, one: bytes | None, other: bytes | None) -> bool:
        """Keys may be in any order, numbers in any form."""
        return parse(path, one) == parse(path, other)

    def gone(self, path: str, data: bytes | None) -> Delete | SetData | None:
        """An empty config stays, as in Kafka.

        But a znode whose name Kafka encodes differently is deleted: brokers take both for one
        entity.
        """
        if _usual(path) != path:
            return Delete(path)
        return None if configs.is_empty(path, data) else SetData(path, EMPTY)

    def notifications(self, op: ZkOp) -> Sequence[ZkOp]:
        """One notification per write of an entity; none for a folder without data."""
        notified = self.owns(op.path) and not (isinstance(op, Create) and op.data is None)
        path = _usual(op.path) if notified else None
        return () if path is None else (configs.notification(path),)

    @staticmethod
    def _paths(tree: Tree) -> Iterator[str]:
        """Znodes of entities in the order Kafka reads them."""
        folders = []
        for user in tree.children(USERS):
            if tree.children(folder := f"{USERS}/{user}/clients"):
                folders.append(folder)
            yield f"{USERS}/{user}"
        yield from (f"{CLIENTS}/{name}" for name in tree.children(CLIENTS))
        for folder in folders:
            yield from (f"{folder}/{name}" for name in tree.children(folder))
        yield from (f"{IPS}/{name}" for name in tree.children(IPS))


def _user(name: str) -> Entity:
    return (EntityPart(USER, False, name),)


def _ascending(some: Iterable[T]) -> Iterator[T]:
    """Sort lazily: building a heap takes a fraction of the time."""
    heap: list[Any] = list(some)
    heapify(heap)
    while heap:
        yield heappop(heap)


def _each_once(*ascending: Iterable[Entity]) -> Iterator[Entity]:
    """Merge lazily: there may be many, and no step may take long."""
    return (entity for entity, _ in groupby(merge(*ascending)))


def _records(parts: Parts, found: EntityProperties) -> Iterator[Record]:
    for mechanism, credential in sorted(found.credentials.items()):
        # Kafka takes credentials of the default user for those of a user of that name.
        name = configs.DEFAULT if parts[0].is_default else parts[0].name
        yield scram.record_of((name, mechanism), credential)
    for key, limit in found.quotas.items():
        yield client_quotas.record_of(parts, key, limit)
