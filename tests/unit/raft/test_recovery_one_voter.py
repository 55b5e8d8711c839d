"""A folder that was written when there was one voter only: today's code goes on with it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from emulator.config import load as config
from emulator.metadata.image import Image
from emulator.metadata.snapshot import to_records
from emulator.node.machine import Node
from emulator.node.recovery import identity
from emulator.raft import RecoveryError
from emulator.raft.layout import QUORUM_STATE, RECOVERY_POINT, segment_base, snapshot_id
from emulator.seam import AppendFile, DeleteFile, ReplaceFile, TruncateFile
from tests.data import one_voter
from tests.kit.joined import Joined, Party
from wire import records as r
from wire.record_serde import decode_record, encode_record

VOTERS = "3000@localhost:9093"
OTHERS = "3001@host-3001:9093,3002@host-3002:9093"


def node(
    files: dict[str, bytes], joined: Joined, node_id: int = 3000, voters: str = VOTERS
) -> Node:
    host = next(each for each in voters.split(",") if each.startswith(f"{node_id}@"))
    found = config.load(
        {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://{host.partition('@')[2]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": "data",
        }
    )[0]
    return Node(
        found,
        identity(found, files),
        files,
        rng=Random(node_id),
        stamp=lambda: joined.now_ms * 1_000_000,
        new_conn=joined.new_conn,
        now_ms=joined.now_ms,
    )


def batches(one: Node, end: int) -> list[Any]:
    return [
        [
            each.base_offset,
            each.leader_epoch,
            each.attributes,
            [value.hex() for _, value in each.records],
        ]
        for each in one.raft.read(0, end - 1)
    ]


def state(image: Image) -> list[str]:
    return [encode_record(each, of).hex() for each, of in to_records(image)]


def others(told: list[str]) -> set[str]:
    """All but the registrations of controllers: each life of one has its own."""
    kind = r.RegisterControllerRecord
    return {each for each in told if not isinstance(decode_record(bytes.fromhex(each))[0], kind)}


@pytest.mark.parametrize("name", ["killed", "stopped"])
def test_the_same_records_the_same_state_and_not_a_byte_of_the_log_changed(name):
    files, told = one_voter.folder(name)
    joined = Joined()
    one = node(files, joined)
    assert (one.raft.log_start_offset, one.raft.log_end_offset) == (told["start"], told["end"])
    assert batches(one, told["end"]) == told["batches"]
    assert state(one.history.tip) == told["state"]
    latest = one.raft.latest_snapshot
    assert [latest.end_offset, latest.epoch] == told["snapshot"]
    party = Party("3000", one, {("localhost", 9093): "CONTROLLER"}, files=dict(files))
    joined.parties.append(party)
    effects = one.start(joined.now_ms)
    cut = [each for each in effects if isinstance(each, TruncateFile | DeleteFile)]
    assert not cut
    replaced = {each.path: each.data for each in effects if isinstance(each, ReplaceFile)}
    for path in [each for each in replaced if segment_base(each) is not None or snapshot_id(each)]:
        assert replaced[path] == files[path], "written anew as it is"
    joined.perform(party, effects)
    joined.settle()
    assert any(isinstance(each, AppendFile) for each in effects), "the record of the new epoch"
    for path, data in files.items():
        if segment_base(path) is not None or snapshot_id(path) is not None:
            assert party.files[path].startswith(data)
    assert one.active
    assert one.raft.leader_epoch == told["epoch"] + 1
    assert others(state(one.controller.stable)) == others(told["state"])


def test_after_an_orderly_stop_the_mark_of_then_still_holds():
    files, told = one_voter.folder("stopped")
    assert files[RECOVERY_POINT] == f"0\n{told['end']}\n".encode()
    last = max(path for path in files if segment_base(path) is not None)
    short = {**files, last: files[last][:-1]}
    with pytest.raises(RecoveryError, match=f"{RECOVERY_POINT} says that all below 96 was durable"):
        node(short, Joined())


def several(files: dict[str, bytes], joined: Joined, node_id: int) -> Node:
    copy = {
        **files,
        "meta.properties": files["meta.properties"].replace(b"=3000", b"=%d" % node_id),
    }
    return node(copy, joined, node_id, f"{VOTERS},{OTHERS}")


def test_as_one_of_three_it_is_refused_and_the_way_out_is_right():
    """Two new voters could elect each other, and the records would be gone."""
    files, told = one_voter.folder("killed")
    joined = Joined()
    with pytest.raises(RecoveryError) as found:
        several(files, joined, 3000)
    assert str(found.value).startswith(
        f"{QUORUM_STATE}: written for voters [3000], configured are [3000, 3001, 3002]; "
        "new voters with empty logs could elect a leader without these records"
    )
    assert "remove this file from each copy and from the original" in found.value.why
    del files[QUORUM_STATE]
    nodes = [several(files, joined, each) for each in (3000, 3001, 3002)]
    hosts = ("localhost", "host-3001", "host-3002")
    for one, host in zip(nodes, hosts, strict=True):
        joined.join(host, one, {(host, 9093): "CONTROLLER"})
    joined.until(lambda: any(one.active for one in nodes))
    joined.wait(2_000)
    for one in nodes:
        assert batches(one, told["end"]) == told["batches"]
    (leader,) = [one for one in nodes if one.active]
    assert others(state(leader.controller.stable)) == others(told["state"])
