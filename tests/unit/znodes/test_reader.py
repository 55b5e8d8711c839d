"""What the reader brings home from trees that are not as Kafka makes them."""

from __future__ import annotations

from emulator.metadata import EMPTY
from emulator.migration.plan import compare
from emulator.znodes.reader import TreeReader, TreeTag
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Create, GetChildren, ReadFailed, ZkResult
from tests.laws.zk_trees import EPOCH, empty_tree, ops_of, read, write

ABSENT = ReadFailed(ZkCode.NO_NODE)


def test_what_may_not_be_read_is_named() -> None:
    reader = TreeReader(reads_max=1000)
    ((tag, request),) = reader.requests()
    assert reader.requests() == []
    assert reader.owns(tag)
    assert not TreeReader().owns(tag)
    denied: list[object] = [ReadFailed(ZkCode.NO_NODE)] * len(request.reads)
    denied[0] = ReadFailed(ZkCode.NO_AUTH)
    reader.outcome(ZkResult(tag, denied))  # type: ignore[arg-type]
    assert reader.complete
    assert reader.tree.unreadable == {request.reads[0].path: ZkCode.NO_AUTH}
    assert isinstance(tag, TreeTag)
    assert reader.reads_count == len(request.reads)


def test_no_more_than_two_requests_are_on_their_way() -> None:
    reader = TreeReader(reads_max=5)
    assert [len(request.reads) for _, request in reader.requests()] == [5, 5]
    assert reader.requests() == []


def test_of_no_paths_nothing_is_read() -> None:
    reader = TreeReader(only=())
    assert (reader.requests(), reader.complete) == ([], True)


def test_no_request_is_longer_than_a_frame() -> None:
    """Names of users are percent-encoded: a few hundred signs may be thousands of bytes."""
    reader = TreeReader()
    names = tuple(f"{number:03}" + "%E6%BC%A2" * 400 for number in range(300))
    sent: list[str] = []
    while not reader.complete:
        for tag, request in reader.requests():
            assert jute.encode_request(request, 1, "/" + "c" * 1_000)
            sent += [one.path for one in request.reads]
            answers: list[object] = [
                names if one.path == "/config/users" and isinstance(one, GetChildren) else ABSENT
                for one in request.reads
            ]
            reader.outcome(ZkResult(tag, answers))  # type: ignore[arg-type]
    assert {f"/config/users/{name}" for name in names} <= set(sent)


def test_a_topic_with_strange_znodes_below_can_be_deleted_and_else_keeps_them() -> None:
    model = empty_tree()
    topic = "/brokers/topics/t"
    paths = (topic, f"{topic}/partitions", f"{topic}/odd", f"{topic}/odd/deep", f"{topic}/other")
    write(model, [Create(path, b"{") for path in paths])
    tree = read(model)
    assert tree.exists(f"{topic}/odd/deep")
    write(model, ops_of(compare(tree, EMPTY, controller_epoch=EPOCH)))
    assert topic not in model.nodes


def test_of_the_folder_of_partitions_alone_no_data_is_read() -> None:
    model = empty_tree()
    topic = "/brokers/topics/t"
    paths = (topic, f"{topic}/partitions", f"{topic}/odd", f"{topic}/odd/partitions")
    write(model, [Create(path, b"{") for path in paths])
    tree = read(model)
    assert [path for path in paths if tree.node(path) is None] == [f"{topic}/partitions"]
    assert tree.exists(f"{topic}/partitions")


def test_children_and_existence() -> None:
    model = empty_tree()
    write(model, [Create("/config/users/a", None), Create("/config/users/a/clients", None)])
    write(model, [Create("/config/users/a/clients/b", b"x")])
    tree = read(model)
    assert list(tree.below("/config/users")) == [
        "/config/users/a",
        "/config/users/a/clients",
        "/config/users/a/clients/b",
    ]
    assert tree.data("/config/users/a/clients/b") == b"x"
    assert tree.data("/nowhere") is None
    assert not tree.exists("/nowhere")
    assert tree.children("/nowhere") == ()


class Name(str):
    """Counts how often a path is made of it."""

    __slots__ = ()
    used = 0

    def __format__(self, spec: str) -> str:
        Name.used += 1
        return super().__format__(spec)


def test_a_long_list_is_followed_as_far_as_requests_are_sent() -> None:
    """A step that made the reads of 100,000 topics would keep everybody waiting."""
    names = tuple(Name(f"t{number:06}") for number in range(20_000))
    reader = TreeReader(reads_max=500)
    asked: list[str] = []
    most = 0
    while not reader.complete:
        Name.used = 0
        for tag, request in reader.requests():
            asked += [one.path for one in request.reads]
            answers: list[object] = [
                names if one == GetChildren("/brokers/topics") else ABSENT for one in request.reads
            ]
            reader.outcome(ZkResult(tag, answers))  # type: ignore[arg-type]
        most = max(most, Name.used)
    assert 0 < most <= 3 * 500
    below = [path for path in asked if path.startswith("/brokers/topics/t")]
    assert len(below) == len(set(below)) == 2 * 20_000, "the partitions and the topic itself"
