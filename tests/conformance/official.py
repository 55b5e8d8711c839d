"""Kafka's own message definitions, from the jars of a release, as layouts to compare with ours."""

import functools
import json
import re
import zipfile
from typing import Any

from emulator.servers.jars import schema_jars
from wire.schema import EMPTY, Field, Layout, declared_messages, versions_of

RELEASES = ("3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2")

RENAMED = {("RequestHeader", "request_api_key"): "api_key"} | {
    ("RequestHeader", "request_api_version"): "api_version"
}
"""The whole table of exceptions to the mechanical names."""

DIFFERENT: dict[tuple[str, int], tuple[str, ...]] = {
    # A tag that older releases do not know; compatible on the wire.
    ("UpdateMetadataRequest", 8): ("3.4.1", "3.5.2"),
    # Another shape under the same number, never written by that release.
    ("UserScramCredentialRecord", 0): ("3.4.1",),
    ("DelegationTokenRecord", 0): ("3.4.1", "3.5.2"),
    # Drafts that a release hides as unstable.
    ("ConsumerGroupHeartbeatRequest", 0): ("3.5.2", "3.6.2"),
    ("ConsumerGroupHeartbeatResponse", 0): ("3.5.2", "3.6.2"),
    ("ConsumerGroupDescribeResponse", 0): ("3.7.2",),
}
"""(message, version) whose layout some releases have otherwise; ours is the newest."""

NAMED_LATER: dict[str, tuple[str, ...]] = {
    "AddPartitionsToTxnRequest": ("3.4.1",),
    "AddPartitionsToTxnResponse": ("3.4.1",),
    "OffsetCommitRequest": ("3.4.1", "3.5.2"),
    # A misspelt struct.
    "CreateTopicsRequest": RELEASES[:-1],
    # The default of the replica id; it is always sent.
    "FetchRequest": ("3.4.1",),
}
"""Messages in which later releases renamed something or changed a default; the wire is the same."""


@functools.cache
def definitions(release: str) -> dict[str, Any]:
    """Message name -> its definition."""
    found: dict[str, Any] = {}
    for jar in schema_jars(release):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                    found_one = json.loads(re.sub(r'(?m)\s//[^"\n]*$', "", text))
                    found[found_one["name"]] = found_one
    return found


def snake(name: str) -> str:
    """The mechanical name of a field."""
    plain = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def versions(definition: dict[str, Any]) -> range:
    """The versions a release has of a message."""
    return versions_of(definition["validVersions"])


def official_layout(definition: dict[str, Any], version: int) -> Any:
    """The layout of a message as nested tuples: present fields in wire order, tagged, absent."""
    commons = {s["name"]: s["fields"] for s in definition.get("commonStructs", [])}
    flexible = version in versions_of(definition.get("flexibleVersions", "none"))
    return _official_struct(definition["name"], definition["fields"], version, commons, flexible)


def _official_struct(
    name: str, fields: list[dict[str, Any]], version: int, commons: dict[str, Any], flexible: bool
) -> Any:
    present, tagged, absent = [], [], []
    for entry in fields:
        here = versions_of(entry.get("versions") or entry["taggedVersions"])
        attribute = snake(entry["name"])
        attribute = RENAMED.get((name, attribute), attribute)
        element = entry["type"].removeprefix("[]")
        inner = entry.get("fields") or commons.get(element)
        if version not in here:
            absent.append((attribute, bool(entry.get("ignorable")), _official_default(entry)))
            continue
        compact = flexible and entry.get("flexibleVersions") != "none"
        described = (
            attribute,
            "struct" if inner else element,
            entry["type"].startswith("[]"),
            version in versions_of(entry.get("nullableVersions", "none")),
            compact,
            _official_default(entry),
            _official_struct(element, inner, version, commons, flexible) if inner else None,
        )
        if version in versions_of(entry.get("taggedVersions", "none")):
            tagged.append((int(entry["tag"]), described))
        else:
            present.append(described)
    return (name, flexible, tuple(present), tuple(sorted(tagged)), tuple(sorted(absent)))


def _official_default(entry: dict[str, Any]) -> Any:
    kind, given = entry["type"], entry.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return "empty"
    numbers = {"int8", "int16", "uint16", "int32", "uint32", "int64"}
    if kind in numbers:
        return int(str(given or 0), 0)
    if kind == "bool":
        return str(given or False).lower() == "true"
    if kind == "float64":
        return float(given or 0)
    return {"string": given or "", "bytes": b"", "records": b"", "uuid": bytes(16)}.get(kind, "new")


def our_layout(form: Layout) -> Any:
    """One of our layouts in the same form."""
    return (
        form.name,
        form.flexible,
        tuple(_ours(entry) for entry in form.fields),
        tuple(sorted((entry.tag, _ours(entry)) for entry in form.tagged)),
        tuple(sorted((e.name, e.ignorable, _our_default(e)) for e in form.absent)),
    )


def _ours(entry: Field) -> Any:
    return (
        entry.name,
        entry.kind,
        entry.array,
        entry.nullable,
        entry.compact,
        _our_default(entry),
        None if entry.group is None else our_layout(entry.group),
    )


def _our_default(entry: Field) -> Any:
    if entry.array and entry.default is not None:
        return "empty"
    return "new" if entry.default is EMPTY else entry.default


def declared() -> dict[str, type]:
    """Our declarations by name."""
    return {what.name: cls for cls, what in declared_messages().items()}
