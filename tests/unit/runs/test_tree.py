"""What two controllers must agree on, and what they need not."""

import pytest

from bench.runs.tree import differences

STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'
TREE = {
    "/brokers/topics/a": b'{"partitions":{"0":[0,1]},"topic_id":"x","version":3}',
    "/brokers/topics/a/partitions": None,
    "/brokers/topics/a/partitions/0": None,
    "/brokers/topics/a/partitions/0/state": STATE,
    "/migration": b'{"kraft_metadata_offset":1}',
}
STATE_PATH = "/brokers/topics/a/partitions/0/state"


def test_ids_epochs_order_of_members_and_bookkeeping_may_differ():
    other = TREE | {
        "/brokers/topics/a": b'{"version":3,"topic_id":"y","partitions":{"0":[0,1]}}',
        STATE_PATH: STATE.replace(b'"controller_epoch":1', b'"controller_epoch":7'),
        "/migration": b'{"kraft_metadata_offset":9}',
        "/kraft_bridge/state": b"{}",
        "/controller": b"{}",
        "/brokers/ids/0": b"{}",
        "/config/changes/config_change_0000000001": b"{}",
    }
    assert differences(TREE, other) == []


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (STATE_PATH, STATE.replace(b"[0,1]", b"[1,0]")),
        (STATE_PATH, STATE.replace(b'"leader_epoch":0', b'"leader_epoch":1')),
        ("/brokers/topics/a", b'{"partitions":{"0":[0]},"topic_id":"x","version":3}'),
        ("/brokers/topics/a/partitions", b""),
        ("/brokers/topics/b", b"{}"),
        ("/migration_of_another", b"{}"),
    ],
)
def test_anything_else_is_a_difference(path, data):
    assert differences(TREE, TREE | {path: data}) == [path]
    assert differences(TREE | {path: data}, TREE) == [path]


def test_a_missing_znode_is_a_difference():
    less = {path: data for path, data in TREE.items() if path != STATE_PATH}
    assert differences(TREE, less) == [STATE_PATH]
