"""A pass of Python's collector is a part of a step, so it must not grow with what is kept."""

from __future__ import annotations

import subprocess
import sys

LOOKED_AT_MAX = 70_000
KEPT = 700_000

KEEPS = f"""
import asyncio, gc
from emulator.io.clock import Clock
from emulator.io.run import Shell
from emulator.io.serving import own_process

most = 0

def looked(phase, info):
    global most
    if phase == "start":
        young = range(info["generation"] + 1)
        most = max(most, sum(len(gc.get_objects(generation=each)) for each in young))

async def main():
    own_process(Shell(None, None, Clock(), log=lambda _: None, row=lambda _: None))
    gc.callbacks.append(looked)
    return [[number] for number in range({KEPT})]

kept = asyncio.run(main())
print(most)
"""


def test_no_pass_looks_at_many_objects() -> None:
    """While 1,000,000 partitions were read, one looked at 2,500,000, in 150 ms."""
    line = [sys.executable, "-c", KEEPS]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert 0 < int(said) <= LOOKED_AT_MAX
