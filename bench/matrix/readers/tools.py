"""The script of Kafka's command-line tools: valid and invalid calls of each."""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.matrix.readers.outcome import Outcome, plain
from bench.matrix.stage import Stage, WrongError
from bench.matrix.steps.security import known_tokens
from emulator.servers.kafka import USERS
from emulator.servers.ports import HOST
from emulator.servers.waiting import PATIENCE_S

TOOLS: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
}
"""Name of the script -> main class."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command. ``{file:NAME}`` stands for the path of a file of `FILES`."""

    tool: str
    words: str
    numbers: bool = True
    """Whether the numbers printed must be the same; offsets and epochs are not."""
    controller: bool = False
    """Ask the controller itself (KIP-919), not a broker."""


_CACHED_S: Final = 0.5
_READS_FIRST: Final = re.compile(r"^(--)?(describe|list|alter|delete)|--(execute|verify|cancel)")
"""Commands that ask a broker how things are before they change them, or only that."""
_KAFKAS_S: Final = 10.0
"""How long to wait for Kafka's controller, which never propagates some changes."""
FILES: Final = {
    "move": {
        "version": 1,
        "partitions": [{"topic": "t1", "partition": 0, "replicas": [1, 2]}],
    },
    "nowhere": {
        "version": 1,
        "partitions": [{"topic": "t1", "partition": 1, "replicas": [0, 9]}],
    },
    "nothing": {
        "version": 1,
        "partitions": [{"topic": "nosuch", "partition": 0, "replicas": [0, 1]}],
    },
    "elect": {"partitions": [{"topic": "t1", "partition": 2}]},
}
_SCRIPT: Final = Path(__file__).with_name("script.txt")


def script() -> list[Line]:
    """The lines of ``script.txt``."""
    return [
        _parse(line)
        for line in _SCRIPT.read_text().splitlines()
        if line and not line.startswith("#")
    ]


def _parse(line: str) -> Line:
    """One line of the script.

    >>> _parse("@~kafka-features describe")
    Line(tool='kafka-features', words='describe', numbers=False, controller=True)
    """
    bare = line.lstrip("@~")
    marks = line[: len(line) - len(bare)]
    tool, _, words = bare.partition(" ")
    return Line(tool, words, numbers="~" not in marks, controller="@" in marks)


def settle(stage: Stage) -> None:
    """Wait until brokers in ZooKeeper mode, which describe what ZooKeeper holds, can know."""
    with contextlib.suppress(WrongError):
        stage.agree(PATIENCE_S if stage.ours else _KAFKAS_S)
    time.sleep(_CACHED_S)


@dataclass(slots=True)
class Script:
    """Runs the lines against one cluster."""

    stage: Stage
    folder: Path
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> list[Outcome]:
        """Every line, then delegation tokens, whose lines depend on one another."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))
        for line in script():
            if _READS_FIRST.search(line.words):
                settle(self.stage)
            self._line(line)
            if "--execute" in line.words and "move" in line.words:
                self.stage.whole()
        self._tokens()
        return self.outcomes

    def _line(self, line: Line) -> str:
        words = re.sub(
            r"\{file:(\w+)\}", lambda found: str(self.folder / f"{found[1]}.json"), line.words
        ).split()
        where = (
            ("--bootstrap-controller", f"{HOST}:{self.stage.controller.port}")
            if line.controller
            else ("--bootstrap-server", self.stage.cluster.brokers[0].bootstrap)
        )
        shown = f"{line.words} (controller)" if line.controller else line.words
        return self._ask(line.tool, [*where, *words], shown, numbers=line.numbers)

    def _ask(self, tool: str, words: list[str], shown: str, *, numbers: bool = True) -> str:
        done = self.stage.host.run(TOOLS[tool], *words)
        text = f"exit {done.code}\n" + plain(f"{done.out}\n{done.err}", numbers=numbers)
        self.outcomes.append(Outcome(tool, shown, text.replace(str(self.folder), "<folder>")))
        return done.out

    def _wait_cached(self, what: str, count: int) -> None:
        """Wait until every broker caches that many tokens; Kafka's controller never sends them."""
        with contextlib.suppress(WrongError):
            self.stage.each(
                what,
                lambda broker: len(known_tokens(self.stage, broker)) == count,
                PATIENCE_S if self.stage.ours else _KAFKAS_S,
            )

    def _tokens(self) -> None:
        name, password = next(iter(USERS.items()))
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config = self.folder / "admin.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{name}" password="{password}";\n'
        )
        where = ["--bootstrap-server", self.stage.sasl(0), "--command-config", str(config)]

        def ask(words: str) -> str:
            shown = re.sub(r"--hmac \S+", "--hmac …", words)
            return self._ask("kafka-delegation-tokens", [*where, *words.split()], shown)

        made = ask("--create --max-life-time-period -1 --renewer-principal User:reader")
        found = re.search(r"[A-Za-z0-9+/]{80,}={0,2}", made)
        hmac = found[0] if found else "none"
        self._wait_cached("the token", 1)
        ask("--describe --owner-principal User:admin")
        ask(f"--renew --renew-time-period 3600000 --hmac {hmac}")
        ask("--renew --renew-time-period 3600000 --hmac bm9uZQ==")
        ask(f"--expire --expiry-time-period -1 --hmac {hmac}")
        self._wait_cached("end of the token", 0)
        ask("--describe --owner-principal User:admin")
