"""Rehearsals of three dumps: ``python -m tools.rehearse``; exit code 1: one ended otherwise.

A recorded tree, a made one of 2,000 topics x 10 with 30 brokers, and one that is spoilt in five
ways, each of which must be named.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.rehearsal.made import document
from emulator.servers.bridge import COMMAND
from tests import data

LARGE: Final = (2_000, 10, 30)
"""Topics, partitions of each, brokers."""
_ENCODED: Final = (
    "keyLength:128,salt:AAAA,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,"
    "encryptedPassword:AAAA,passwordLength:4,initializationVector:AAAA,"
    "keyFactoryAlgorithm:PBKDF2WithHmacSHA512"
)
_BROKER: Final = """\
broker.id={id}
listeners=INTERNAL://:{port},CLIENT://:1{port}
advertised.listeners=INTERNAL://b{id}.example:9091,CLIENT://b{id}.example:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT
inter.broker.listener.name=INTERNAL
inter.broker.protocol.version={level}
zookeeper.connect=zk1.example:2181
log.dirs={data}
broker.rack=r{id}
"""
_TARGET: Final = """\
process.roles=broker
node.id=1
listeners=INTERNAL://:9091,CLIENT://:19091
advertised.listeners=INTERNAL://b1.example:9091,CLIENT://b1.example:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT
inter.broker.listener.name=INTERNAL
log.dirs=/data/1
"""


@dataclass(frozen=True)
class Dump:
    """What is rehearsed: arguments, and what must be among the reasons; none: go."""

    arguments: list[str]
    reasons: tuple[str, ...] = ()


def spoilt(folder: Path) -> Dump:
    """A made tree and files: a registration, the copy, a disk, a roll and a secret are spoilt."""
    tree = document(topics=20, partitions=5, brokers=4)
    nodes: dict[str, Any] = tree["nodes"]
    nodes["/config/topics/orders-0003"]["text"] = '{"version":1,"config":'
    config = {"listener.name.client.ssl.keystore.password": _ENCODED}
    text = json.dumps({"version": 1, "config": config})
    nodes["/config/brokers/1"] = {**nodes["/config/topics/orders-0001"], "text": text}
    tree["count"] = len(nodes)
    disk = folder / "disk-3"
    disk.mkdir(exist_ok=True)
    disk.joinpath("meta.properties").write_text(
        "version=0\nbroker.id=3\ncluster.id=ANOTHERCLUSTERxxxxxxxw\n"
    )
    files = []
    for number in range(1, 5):
        level = "3.8" if number == 2 else "3.9"
        place = str(disk) if number == 3 else f"/data/{number}"
        file = folder / f"broker-{number}.properties"
        values = {"id": number, "port": 9090 + number, "level": level, "data": place}
        file.write_text(_BROKER.format(**values))
        files += ["-c", str(file)]
    target = folder / "target-1.properties"
    target.write_text(_TARGET)
    dumped = _written(folder, "spoilt", tree)
    named = (
        "is refused: UNSUPPORTED_VERSION",
        "/config/topics/orders-0003",
        "meta.properties",
        "target-1.properties",
        "/config/brokers/1",
    )
    return Dump(["--dump", dumped, *files, "--target", str(target)], named)


def _written(folder: Path, name: str, tree: Mapping[str, Any]) -> str:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(tree))
    return str(file)


def dumps(folder: Path) -> dict[str, Dump]:
    """All three, by name."""
    recorded = data.extract("3.9.2-full/tree-0-before.json", folder)
    return {
        "recorded": Dump(["--dump", str(recorded)]),
        "spoilt": spoilt(folder),
        "large": Dump(["--dump", _written(folder, "large", document(*LARGE))]),
    }


def rehearsed(name: str, dump: Dump, out: Path) -> list[str]:
    """Rehearse it; what is not as it must be."""
    began = time.monotonic()
    command = [sys.executable, "-c", COMMAND, "rehearse", "--out", str(out), *dump.arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"{done.stdout}\n{name}: {time.monotonic() - began:.0f} s\n", flush=True)
    wanted = int(bool(dump.reasons))
    wrong = [] if done.returncode == wanted else [f"{name}: ended with {done.returncode}"]
    return wrong + [f"{name}: not named: {one}" for one in dump.reasons if one not in done.stdout]


def main() -> int:
    """Rehearse what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.rehearse", description=__doc__)
    parser.add_argument("--only", choices=["recorded", "spoilt", "large"])
    parser.add_argument("--out", type=Path, default=Path("out/rehearsals"))
    given = parser.parse_args()
    folder: Path = given.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wrong = [
        line
        for name, dump in dumps(folder).items()
        if given.only in {None, name}
        for line in rehearsed(name, dump, folder)
    ]
    print("\n".join([*wrong, f"rehearse {'FAILED' if wrong else 'OK'}"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
