"""Dumps come back as the tree that was dumped; what is no dump is refused in one sentence."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from emulator.commands.input_file import TreeFileError, load
from emulator.servers.zk_dump import contents
from emulator.znodes.dump import redacted
from emulator.znodes.topics import read_state, read_topic
from tests import data


@pytest.mark.parametrize("folder", data.FOLDERS)
def test_a_recorded_dump_is_the_tree_it_shows(folder: str, tmp_path: Path) -> None:
    file = data.extract(f"{folder}/tree-1-dualwrite.json", tmp_path)
    tree, shown = load(file), contents(json.loads(file.read_text()))
    assert {path: node.data for path, node in tree.nodes.items()} == shown
    assert sorted(tree.children("/brokers/ids")) == ["0", "1", "2"]
    assert all(tree.nodes[f"/brokers/ids/{n}"].ephemeral_owner for n in "012")
    roots = [f"/{name}" for name in tree.children("/")]
    assert {*roots, *(path for root in roots for path in tree.below(root))} == set(shown)
    for name in tree.children("/brokers/topics"):
        for index in read_topic(tree, name).partitions:
            assert read_state(tree, name, index) is not None


def test_null_empty_and_binary_data_are_told_apart(tmp_path: Path) -> None:
    nodes = {
        "/a": {"null": True, "version": 3},
        "/a/b": {"text": ""},
        "/a/c": {"b64": base64.b64encode(b"\xff\x00").decode(), "czxid": 7, "ephemeralOwner": 9},
        "/d/e": {"text": "<redacted>"},
    }
    file = tmp_path / "tree.json"
    file.write_text(json.dumps({"note": None, "time": 1.5, "count": 4, "nodes": nodes}))
    tree = load(file)
    assert (tree.data("/a"), tree.data("/a/b"), tree.data("/a/c")) == (None, b"", b"\xff\x00")
    assert tree.nodes["/a"].version == 3
    assert (tree.nodes["/a/c"].czxid, tree.nodes["/a/c"].ephemeral_owner) == (7, 9)
    assert tree.children("/a") == ("b", "c")
    assert tree.exists("/d")
    assert redacted(tree) == ["/d/e"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("", "not a dump"),
        ("{", "not a dump"),
        ("[]", "not a dump"),
        ("{}", "missing required field `nodes`"),
        ('{"nodes": {"/a": 1}}', "Expected `object`"),
        ('{"nodes": {"/a": {"version": 1}}}', "/a has neither text nor b64 nor null"),
        ('{"nodes": {"/a": {"b64": "!"}}}', "/a: "),
        ('{"nodes": {"a": {"null": true}}}', "'a' is no path of a znode"),
        ('{"nodes": {"/a//b": {"null": true}}}', "'/a//b' is no path of a znode"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_sentence(
    text: str | None, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "tree.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TreeFileError) as refused:
        load(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
