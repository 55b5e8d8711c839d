"""A leader on the folder of an earlier quorum: its log has batches that no log of ours can have."""

from __future__ import annotations

import pytest

from emulator.raft.layout import CONTRADICTED
from tests.unit.raft.test_following import batch, with_log


def test_a_batch_that_goes_on_beyond_our_end_is_of_another_quorum_s_log():
    """Of one epoch, so no diverging answer comes: the leader's folder is of an earlier quorum."""
    one = with_log(batch(0, 1, "ab"), batch(2, 2, "c"))
    before = {path: data for path, data in one.disk.files.items() if path.endswith(".log")}
    one.answer(one.fetch(), records=batch(2, 2, "cd"))
    assert "leads epoch 3 with another batch at offset 2, of the same epoch" in one.disk.halt.why
    assert CONTRADICTED in one.disk.files
    assert {path: one.disk.files[path] for path in before} == before


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(batch(2, 3, "cd"), id="another epoch"),
        pytest.param(batch(2, 2, "cd")[:-1] + b"?", id="damaged"),
        pytest.param(batch(2, 2, "cd")[:-1], id="cut"),
        pytest.param(batch(4, 2, "e"), id="a gap"),
        pytest.param(batch(0, 1, "ab"), id="what is here"),
    ],
)
def test_what_proves_nothing_is_an_invalid_answer_and_ends_nobody(records: bytes):
    one = with_log(batch(0, 1, "ab"), batch(2, 2, "c"))
    one.answer(one.fetch(), records=records)
    assert one.disk.halt is None
    assert CONTRADICTED not in one.disk.files
    assert one.raft.log_end_offset == 3
