"""The tree that was read, the texts a record can hold, and the requests of old tools."""

from __future__ import annotations

import pytest

from emulator.znodes import cluster
from emulator.znodes.tree import Tree, TreeNode, ZnodeError
from emulator.znodes.znode_json import SHOWN_MAX, TEXT_BYTES_MAX, require_short


def _tree() -> Tree:
    tree = Tree()
    tree.nodes = {"/a": TreeNode(b"data", 3), "/a/b/c": TreeNode(None)}
    tree.lists = {"/a": ("b", "z"), "/a/b": ("c",)}
    return tree


def test_what_was_read_and_what_was_only_listed() -> None:
    tree = _tree()
    assert (tree.data("/a"), tree.data("/a/b/c"), tree.data("/x")) == (b"data", None, None)
    assert tree.node("/a") == TreeNode(b"data", 3, 0, 0)
    assert (tree.node("/a/b"), tree.node("/x")) == (None, None)
    assert (tree.children("/a"), tree.children("/x")) == (("b", "z"), ())
    there = [path for path in ("/a", "/a/b", "/a/b/c", "/a/z", "/a/y", "/x") if tree.exists(path)]
    assert there == ["/a", "/a/b", "/a/b/c", "/a/z"]
    assert list(tree.below("/a")) == ["/a/b", "/a/b/c", "/a/z"]
    assert list(tree.below("/x")) == []


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["a" * TEXT_BYTES_MAX], True),
        (["a" * (TEXT_BYTES_MAX + 1)], False),
        (["é" * (TEXT_BYTES_MAX // 2)], True),
        (["é" * (TEXT_BYTES_MAX // 2 + 1)], False),
        (["", "a" * (TEXT_BYTES_MAX + 1)], False),
        ([], True),
    ],
)
def test_a_text_is_as_long_as_a_record_can_hold(texts: list[str], short: bool) -> None:
    if short:
        require_short("/a", "name", *texts)
        return
    with pytest.raises(ZnodeError) as refused:
        require_short("/a", "n" * (SHOWN_MAX + 1), *texts)
    assert refused.value.path == "/a"
    assert refused.value.why.startswith("n" * SHOWN_MAX + ": more than 32767 bytes")


def test_deletions_that_are_pending() -> None:
    tree = _tree()
    assert cluster.pending_deletions(tree) == []
    tree.lists["/admin/delete_topics"] = ("b", "a")
    assert cluster.pending_deletions(tree) == ["a", "b"]
