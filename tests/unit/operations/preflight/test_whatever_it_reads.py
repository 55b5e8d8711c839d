"""Whatever a tree or a file holds, preflight says something and ends."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import DumpedZnode, Survey
from tests.unit.operations.preflight.clean import CLEAN, clean

STRANGE = (
    None,
    1,
    -1,
    "x",
    "",
    [1],
    {"0": 1},
    {"0": ["a", {}, None]},
    [{}],
    True,
    1.5,
    2**70,
    "\x9b",
)
RAW = (
    None,
    b"",
    b"x",
    b"\xff\xfe",
    b'{"x":"\xff"}',
    b"[]",
    b"{}",
    b"null",
    b"1",
    b'"x"',
    b"[" * 100_000,
    b'{"x":' * 9_999,
)
TEXTS = (
    *("", " ", "x", ",", ";;", "-1", "true", "1.5", "9" * 5_000, "\u00e9", "${env:X}"),
    *("@", "1@", "1@a:1,1@a:1", "a:b", "://", "X://", "X://:99999", "PLAINTEXT://[::1]:9092"),
    *("User:", "username=", "CONTROLLER", "broker,controller", "/,/"),
)
KEYS = sorted(
    {key for name in CLEAN for file in clean(name).all_files for key in file.values}
    | {"broker.id", "node.id", "jute.maxbuffer", "log.segment.bytes", "control.plane.listener.name"}
)
META = ("version", "node.id", "broker.id", "cluster.id", "directory.id")


def spoiled(draw: st.DataObject, one: Survey) -> dict[str, DumpedZnode]:
    path = draw.draw(st.sampled_from(sorted(one.nodes)))
    found = one.json(path)
    if found and draw.draw(st.booleans()):
        key = draw.draw(st.sampled_from(sorted(found)))
        data = json.dumps({**found, key: draw.draw(st.sampled_from(STRANGE))}).encode()
    else:
        data = draw.draw(st.sampled_from(RAW))
    return {**one.nodes, path: replace(one.nodes[path], data=data)}


def edited(draw: st.DataObject, file: Properties) -> Properties:
    key, text = draw.draw(st.sampled_from(KEYS)), draw.draw(st.sampled_from(TEXTS))
    said, strange = draw.draw(st.sampled_from(META)), draw.draw(st.sampled_from(TEXTS))
    return replace(file, values={**file.values, key: text}, meta={**file.meta, said: strange})


@given(st.sampled_from(sorted(CLEAN)), st.sampled_from(["", "4.1"]), st.data())
def test_no_content_ends_it(name: str, release: str, draw: st.DataObject) -> None:
    one = clean(name)
    report = run(
        replace(
            one,
            nodes=spoiled(draw, one),
            properties=[edited(draw, file) for file in one.properties],
            targets=[edited(draw, file) for file in one.targets],
            target_release=release,
        )
    )
    assert {found.code for found in report.findings} >= {"I01", "I02", "I03"}
