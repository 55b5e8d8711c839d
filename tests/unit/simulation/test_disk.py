"""The simulated disk: what each fault leaves, and that a fault draws from its own numbers only."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest

from emulator.seam import AppendFile, DeleteFile, ReplaceFile, TruncateFile
from emulator.simulation.models.disk import PAGE, DiskFaults, SimulatedDisk


def disk_with(unsynced: bytes, **faults: object) -> SimulatedDisk:
    """``f`` with 100 durable bytes and more that no sync has covered."""
    disk = SimulatedDisk({"f": b"d" * 100})
    disk.faults = DiskFaults(**{"seed": 1, **faults})  # type: ignore[arg-type]
    disk.append(AppendFile("f", unsynced))
    return disk


def pages(data: bytes) -> list[bytes]:
    return [data[at : at + PAGE] for at in range(0, len(data), PAGE)]


def test_any_subset_of_unsynced_pages_may_survive_and_nothing_else():
    content = b"".join(bytes([65 + i]) * PAGE for i in range(4))
    whole = b"d" * 100 + content
    seen = set()
    for seed in range(300):
        disk = disk_with(content, seed=seed, reordered=1.0)
        disk.crash(Random(0))
        left = disk.files["f"]
        assert left[:100] == b"d" * 100
        for index, (page, full) in enumerate(zip(pages(left), pages(whole), strict=False)):
            durable = page[:100] if index == 0 else b""
            assert page in {full[: len(page)], durable + bytes(len(page) - len(durable))}
        seen.add(tuple(b"\0" not in page for page in pages(left)))
    assert (False, True, False, True, True) in seen, "a later page without an earlier one"
    assert len({each for each in seen if len(each) == 5}) == 32


def test_a_failed_sync_is_told_once_and_its_pages_go_with_the_machine():
    lost = 0
    for seed in range(20):
        disk = disk_with(b"x" * PAGE, seed=seed)
        disk.fail_next("sync")
        with pytest.raises(OSError, match="Input/output error"):
            disk.synced("f", disk.size("f"))
        disk.append(AppendFile("f", b"y" * PAGE * 2))
        disk.synced("f", disk.size("f"))
        assert disk.files["f"].count(b"x") == PAGE, "the cache still has it"
        size = disk.size("f")
        disk.crash(Random(0))
        assert disk.size("f") == size
        assert disk.files["f"].endswith(b"y" * PAGE * 2)
        lost += disk.files["f"].count(b"x") < PAGE
    assert lost > 5


def test_a_full_disk_takes_a_part_of_an_append_and_leaves_a_replaced_file_as_it_was():
    disk = SimulatedDisk({"f": b"1234"})
    disk.capacity = 10
    with pytest.raises(OSError, match="No space left") as caught:
        disk.append(AppendFile("f", b"567890ab"))
    assert caught.value.errno == errno.ENOSPC
    assert disk.files["f"] == b"1234567890"
    with pytest.raises(OSError, match="No space left"):
        disk.replace(ReplaceFile("f", b"new"))
    assert disk.files["f"] == b"1234567890"
    disk.capacity = 13
    disk.replace(ReplaceFile("f", b"new"))
    assert disk.files == {"f": b"new"}


def test_operations_fail_when_they_are_told_to():
    disk = SimulatedDisk({"f": b"1234"})
    disk.fail_next("replace", after=1)
    disk.replace(ReplaceFile("g", b"g"))
    with pytest.raises(OSError, match="Input/output error"):
        disk.replace(ReplaceFile("g", b"h"))
    assert disk.files["g"] == b"g"
    disk.fail_next("truncate")
    with pytest.raises(OSError, match="Input/output error"):
        disk.truncate(TruncateFile("f", 2))
    assert disk.files["f"] == b"12"
    disk.crash(Random(0))
    assert disk.files["f"] == b"1234", "the cut was not durable"
    disk.fail_next("append", errno.EDQUOT)
    with pytest.raises(OSError, match="quota"):
        disk.append(AppendFile("f", b"5678"))


def test_a_failed_replace_may_leave_half_of_its_temporary_file():
    disk = disk_with(b"", leftover=1.0)
    disk.fail_next("replace")
    with pytest.raises(OSError, match="Input/output error"):
        disk.replace(ReplaceFile("g", b"abcd"))
    assert disk.files["g.part"] == b"ab"


def test_a_copy_goes_its_own_way_and_can_be_put_back():
    disk = disk_with(b"loose")
    copy = disk.clone()
    disk.synced("f", disk.size("f"))
    disk.delete(DeleteFile("f"))
    assert copy.files["f"] == b"d" * 100 + b"loose"
    copy.fail_next("append")
    disk.restore(copy)
    disk.append(AppendFile("f", b"!"))
    assert disk.files["f"] == b"d" * 100 + b"loose!"
    assert copy.size("f") == 105
    copy.faults = DiskFaults(2, reordered=1.0)
    copy.crash(Random(0))
    assert copy.files["f"].startswith(b"d" * 100), "what was durable is so in the copy"


def test_one_fault_does_not_move_the_numbers_of_another():
    def errors(**faults: object) -> list[bool]:
        disk = disk_with(b"", **faults)
        found = []
        for _ in range(40):
            disk.append(AppendFile("f", b"x"))
            try:
                disk.synced("f", disk.size("f"))
                found.append(False)
            except OSError:
                found.append(True)
            with contextlib.suppress(OSError):
                disk.replace(ReplaceFile("g", b"g"))
        return found

    only = errors(errors={"sync": 0.3})
    assert only == errors(errors={"sync": 0.3, "replace": 0.5}, leftover=1.0)
    assert 5 < sum(only) < 25
