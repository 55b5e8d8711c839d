"""Configs, quotas, credentials, ACLs and tokens as ZooKeeper has them, read again as they change.

Whoever changes one of them adds a notification afterwards, in the folder of its class. The folders
are watched before anything is read, so no change is missed. A notification for a topic has that
topic's configs read again; any other one everything but topics. A new connection reads all of it.
The configs of a new topic have no notification: they are read when the topic becomes known.

Source: ZkConfigManager, ZkNodeChangeNotificationListener, AclAuthorizer, DelegationTokenManagerZk,
Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from emulator.broker.zookeeper.watched_znode import Submit
from emulator.seam import Effect, Log
from emulator.znodes import acls, configs, delegation_tokens
from emulator.znodes.reader import WALKED, TreeReader, TreeTag
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Exists,
    GetChildren,
    GetData,
    MultiRead,
    NodeData,
    WatchFired,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkResult,
)

TOPICS: Final = "/config/topics"
CONFIG_CHANGES: Final = "/config/changes"
FOLDERS: Final = (
    CONFIG_CHANGES,
    acls.CHANGES,
    acls.EXTENDED_CHANGES,
    delegation_tokens.CHANGES,
)
_OF_TOPICS: Final = "topics/"
TOPICS_PER_READ: Final = 50
"""Topics whose configs are read in one request; each may be a megabyte, and usually is nothing."""


class _ChangeJson(msgspec.Struct):
    entity_path: str = ""
    entity_type: str = ""
    entity_name: str = ""


class ZooKeeperMirror:
    """See the module's docstring.

    Args:
        submit: sends a request.
    """

    def __init__(self, submit: Submit) -> None:
        self.loaded = False
        """Whether everything has been read once."""
        self.version = 0
        """Raised whenever something read has changed."""
        self.tree = Tree()
        """Everything but topics."""
        self.topic_configs: dict[str, bytes | None] = {}
        """Data of ``/config/topics`` by topic."""
        self._submit = submit
        self._reader: TreeReader | None = None
        """Reads everything, or everything but topics."""
        self._stale = False
        """Whether something changed after that one began: then another one follows."""
        self._since: dict[str, bytes | None] = {}
        """Topics read by themselves, or gone (None), since that one began: newer than its own."""
        self._last: dict[str, str] = {}
        """Folder -> the newest notification seen."""
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """Effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def look(self) -> None:
        """Read everything: after every new connection."""
        self._last.clear()
        for folder in FOLDERS:
            self._listen(folder)
        self._begin((TOPICS, *WALKED))

    def fired(self, fired: WatchFired) -> None:
        """A watch was triggered."""
        if fired.path in FOLDERS:
            self._listen(fired.path)

    def topics_changed(self, gone: Iterable[str], new: Iterable[str]) -> None:
        """Topics were deleted, then others created: read the configs that are not known."""
        for name in gone:
            self.topic_configs.pop(name, None)
            if self._reader is not None:
                self._since[name] = None
        self._read_topics([name for name in new if name not in self.topic_configs])

    def _read_topics(self, names: Iterable[str]) -> None:
        """Read the configs of some topics, many in one request."""
        wanted = [*names]
        for first in range(0, len(wanted), TOPICS_PER_READ):
            some = wanted[first : first + TOPICS_PER_READ]
            reads = tuple(GetData(configs.topic_config_path(name)) for name in some)
            if len(some) == 1:
                self._submit(partial(self._topic, some[0]), reads[0])
            else:
                self._submit(partial(self._some_topics, some), MultiRead(reads))

    # ---------------------------------------------------------------- notifications
    def _listen(self, folder: str) -> None:
        self._submit(partial(self._listed, folder), GetChildren(folder, watch=True))

    def _listed(self, folder: str, outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkFailed) and outcome.code == ZkCode.NO_NODE:
            self._submit(partial(self._awaited, folder), Exists(folder, watch=True))
            self._last.setdefault(folder, "")
        if not isinstance(outcome, ZkResult):
            return
        assert isinstance(outcome.value, tuple)
        names = sorted(name for name in outcome.value if isinstance(name, str))
        before = self._last.get(folder)
        self._last[folder] = max([*names, before or ""])
        new = [] if before is None else [name for name in names if name > before]
        if folder == CONFIG_CHANGES:
            for name in new:
                self._submit(self._change, GetData(f"{folder}/{name}"))
        elif new:
            self._read_again()

    def _awaited(self, folder: str, outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkResult):
            # It was created between the two requests.
            self._listen(folder)

    def _change(self, outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkLost):
            return
        path = ""
        if isinstance(outcome, ZkResult) and isinstance(outcome.value, NodeData):
            try:
                change = decode(CONFIG_CHANGES, outcome.value.data, _ChangeJson)
                path = change.entity_path or f"{change.entity_type}/{change.entity_name}"
            except ZnodeError as error:
                self._warn(str(error))
        if path.startswith(_OF_TOPICS):
            self._read_topics([path.removeprefix(_OF_TOPICS)])
        else:
            self._read_again()

    # ---------------------------------------------------------------- reading
    def _topic(self, name: str, outcome: ZkOutcome, _now_ms: int) -> None:
        if not isinstance(outcome, ZkLost):
            self._known(name, outcome.value if isinstance(outcome, ZkResult) else None)

    def _some_topics(self, names: list[str], outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkLost):
            return
        found: Sequence[object] = [None] * len(names)
        if isinstance(outcome, ZkResult):
            assert isinstance(outcome.value, list)
            found = outcome.value
        for name, value in zip(names, found, strict=True):
            self._known(name, value)

    def _known(self, name: str, value: object) -> None:
        """Take the answer to the read of a topic; anything but data means that there is none."""
        data = value.data if isinstance(value, NodeData) else None
        if self._reader is not None and data is not None:
            self._since[name] = data
        if self.topic_configs.get(name) != data:
            self.topic_configs[name] = data
            self.version += 1

    def _read_again(self) -> None:
        """Everything but topics; a reading under way is completed first, so that one ends."""
        if self._reader is None:
            self._begin(WALKED)
        else:
            self._stale = True

    def _begin(self, paths: tuple[str, ...]) -> None:
        self._stale = False
        self._since.clear()
        self._reader = TreeReader(only=paths)
        self._ask(self._reader)

    def _ask(self, reader: TreeReader) -> None:
        for tag, request in reader.requests():
            self._submit(partial(self._answered, reader, tag), request)

    def _answered(self, reader: TreeReader, tag: TreeTag, outcome: ZkOutcome, _now_ms: int) -> None:
        if reader is not self._reader or isinstance(outcome, ZkLost):
            return
        if isinstance(outcome, ZkFailed):
            self._warn(f"reading configs: ZooKeeper answers {code_name(outcome.code)}")
            return
        reader.outcome(ZkResult(tag, outcome.value))
        self._ask(reader)
        if reader.complete:
            self._take(reader.tree)

    def _take(self, tree: Tree) -> None:
        self._reader = None
        for path, code in tree.unreadable.items():
            self._warn(f"{path}: ZooKeeper answers {code_name(code)}")
        if TOPICS in tree.lists:
            read = {name: tree.data(f"{TOPICS}/{name}") for name in tree.children(TOPICS)}
            newest = (read | self._since).items()
            self.topic_configs = {name: data for name, data in newest if data is not None}
        self._since.clear()
        self.tree = tree
        self.loaded = True
        self.version += 1
        if self._stale:
            self._begin(WALKED)

    def _warn(self, why: str) -> None:
        self._effects.append(Log("warning", "configs in zookeeper", {"why": why}))
