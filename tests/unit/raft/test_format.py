"""The files of an empty folder, as kafka-storage makes them."""

from __future__ import annotations

import pytest

from emulator.raft import RecoveryError
from emulator.raft.format import (
    MetaProperties,
    parse_bootstrap_checkpoint,
    parse_meta_properties,
    render_bootstrap_checkpoint,
    render_meta_properties,
    usable_directory_id,
)
from tests.unit.raft.world import CLUSTER, NOW
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import encode_record

LEVEL = encode_record(r.FeatureLevelRecord(name="metadata.version", feature_level=21), 0)


@pytest.mark.parametrize("directory", [None, bytes(range(16))])
def test_meta_properties_are_read_as_written(directory):
    meta = MetaProperties(CLUSTER, 3000, directory)
    assert parse_meta_properties(render_meta_properties(meta)) == meta


def test_meta_properties_as_kafka_writes_them():
    text = (
        b"#\n#Fri Nov 20 23:36:47 UTC 2026\ncluster.id=5L6g3nShT-eMCtK--X86sw\n"
        b"directory.id=B8eaYCSrTQN2d18id9gZkw\nnode.id=3000\nversion=1\n"
    )
    found = parse_meta_properties(text)
    assert (found.cluster_id, found.node_id) == (CLUSTER, 3000)
    assert render_meta_properties(found).splitlines()[1:] == text.splitlines()[2:]


def test_meta_properties_are_read_as_any_properties_file():
    text = b"# a\x85node.id=1\nversion: 1\n! node.id=2\nnode.id\t3000\r\n"
    text += b"cluster.id \\u0041b\\=\\\n  c\n"
    assert parse_meta_properties(text) == MetaProperties("Ab=c", 3000, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"version=0\nbroker.id=0\n", "version 0"),
        (b"", "version is missing"),
        (b"version=1\ncluster.id=\\u00\nnode.id=1\n", "escape"),
        (b"version=1\0", "NUL"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "not a whole number"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=?\n", "no uuid"),
    ],
)
def test_meta_properties_of_something_else_stop_the_node(text, why):
    with pytest.raises(RecoveryError, match=f"meta.properties: .*{why}"):
        parse_meta_properties(text)


def test_directory_ids_that_mean_something_else_are_not_usable():
    assert not usable_directory_id(bytes(16))
    assert not usable_directory_id(bytes(15) + bytes([99]))
    assert usable_directory_id(bytes(15) + bytes([100]))
    assert not usable_directory_id(b"\xfb" * 16), "its text begins with a dash"


def test_bootstrap_checkpoint_is_three_batches_of_kafkas_size():
    data = render_bootstrap_checkpoint([LEVEL], NOW)
    batches = list(decode_batches(data))
    assert [(b.base_offset, b.leader_epoch, b.attributes) for b in batches] == [
        (0, 0, 0x20),
        (1, 0, 0),
        (2, 0, 0x20),
    ]
    assert len(data) == 249
    assert parse_bootstrap_checkpoint({"bootstrap.checkpoint": data}) == [LEVEL]
    assert parse_bootstrap_checkpoint({}) == []


def test_a_damaged_bootstrap_checkpoint_stops_the_node():
    data = render_bootstrap_checkpoint([LEVEL], NOW)
    for broken in (b"", data[:-1], data[79:], data[:100] + b"!" + data[101:]):
        with pytest.raises(RecoveryError, match=r"bootstrap\.checkpoint"):
            parse_bootstrap_checkpoint({"bootstrap.checkpoint": broken})
