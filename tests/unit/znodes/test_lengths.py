"""What a metadata record can hold of a znode's texts, to the byte."""

from __future__ import annotations

import pytest

from emulator.znodes import configs
from emulator.znodes.tree import Tree, TreeNode, ZnodeError
from emulator.znodes.znode_json import TEXT_BYTES_MAX, require_short
from wire import records as r
from wire.codec import decode, encode

LONGEST = "é" + "a" * (TEXT_BYTES_MAX - 2)


def test_the_longest_text_is_the_longest_that_the_wire_reads_and_writes() -> None:
    record = r.ConfigRecord(resource_type=2, resource_name="t", name="k", value=LONGEST)
    assert decode(r.ConfigRecord, 0, encode(record, 0)).value == LONGEST
    require_short("/x", "k", "", LONGEST)


def test_one_byte_more_is_refused_and_shown_in_part() -> None:
    with pytest.raises(ZnodeError, match="^/x: " + "n" * 100 + ": more than 32767 bytes"):
        require_short("/x", "n" * 200, "", LONGEST + "a")


def read(config: dict[str, str]) -> dict[str, str]:
    tree = Tree()
    tree.nodes["/config/topics/t"] = TreeNode(configs.config_data(config), 0)
    return dict(configs.read_topic_config(tree, "t"))


def test_a_config_has_neither_a_longer_key_nor_a_longer_value() -> None:
    longest = {LONGEST: "v", "k": LONGEST}
    assert read(longest) == longest
    for more in ({"a" + LONGEST: "v"}, {"k": "a" + LONGEST}):
        with pytest.raises(ZnodeError, match="more than 32767 bytes"):
            read(more)
