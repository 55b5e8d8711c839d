"""Which znodes are there when everything planned so far is written."""

from __future__ import annotations

from emulator.migration.entity_plan import PlannedPaths


def test_paths_come_and_go() -> None:
    known = PlannedPaths(["/a", "/a/b"])
    assert [path in known for path in ("", "/a", "/a/b", "/c")] == [True, True, True, False]
    known.add(["/c", "/c/d"])
    known.remove("/a/b")
    known.remove("/not/there")
    assert [path in known for path in ("", "/a", "/a/b", "/c", "/c/d")] == [
        True,
        True,
        False,
        True,
        True,
    ]
    known.restart()
    assert [path in known for path in ("", "/a", "/c")] == [True, False, False]
