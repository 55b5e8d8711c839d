"""KIP-183's deprecated option ``--zookeeper``: request an election by a znode.

The controller of a cluster in ZooKeeper mode watches ``/admin/preferred_replica_election``, elects
and deletes it. Nothing else reads that znode: no KRaft controller, Kafka's or this one, ever does
(it would wait there for the next controller in ZooKeeper mode). So it is written only while such a
controller leads.

Source: PreferredReplicaLeaderElectionCommand, Kafka 2.2; KafkaController
(processReplicaLeaderElection), Kafka 3.9.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from emulator.commands.elect_leaders.by_brokers import ElectionError, Outcome, TopicPartition
from emulator.commands.zk.client import CONNECT_TIMEOUT_S, check_reachable
from emulator.commands.zk.client import client as client_of
from emulator.io.kafka_client import UnreachableError
from emulator.znodes import controller as controller_znode
from emulator.znodes import znode_json
from emulator.znodes.cluster import PREFERRED_REPLICA_ELECTION as ELECTION
from emulator.znodes.topics import ROOT, parse_state, parse_topic, state_path, topic_path
from emulator.znodes.tree import ZnodeError

PAUSE_S: Final = 0.1


class ConnectStringError(Exception):
    """What was given is no connect string."""


def elect_by_zookeeper(
    zookeeper: str, partitions: Sequence[TopicPartition] | None, timeout_s: float
) -> Outcome:
    """Write the znode, wait until it is deleted, and read the leaders.

    Args:
        zookeeper: ``host:port[,…][/chroot]``.
        partitions: None for every one there is.
        timeout_s: for the controller to act.

    Raises:
        ConnectStringError: ``zookeeper`` is no connect string.
        UnreachableError: no server accepts connections there.
        ElectionError: ZooKeeper, or what a znode holds, cannot be read; no controller leads, or one
            in KRaft mode does; an election is under way; no controller deleted the znode in time
            (it stays then).
    """
    with _connected(zookeeper) as client:
        _need_zookeeper_mode(client)
        assigned = _assigned(client)
        wanted = list(assigned) if partitions is None else list(partitions)
        outcome = Outcome()
        known = [one for one in wanted if one in assigned]
        unknown = "UNKNOWN_TOPIC_OR_PARTITION: not in ZooKeeper"
        outcome.failed += [(one, unknown) for one in wanted if one not in assigned]
        before = {one: _leader(client, one) for one in known}
        if known:
            _ask(client, known)
            _wait(client, timeout_s)
        for one in known:
            preferred, leader = assigned[one], _leader(client, one)
            if leader != preferred:
                text = f"PREFERRED_LEADER_NOT_AVAILABLE: {leader} leads, {preferred} is preferred"
                outcome.failed.append((one, text))
            elif before[one] == preferred:
                outcome.needless.append(one)
            else:
                outcome.elected.append(one)
        return outcome


@contextmanager
def _connected(zookeeper: str) -> Iterator[KazooClient]:
    try:
        check_reachable(zookeeper)
        client = client_of(zookeeper, timeout_s=CONNECT_TIMEOUT_S)
    except ValueError as error:
        raise ConnectStringError(f"{zookeeper} is not host:port[,…][/chroot]: {error}") from error
    except KazooTimeoutError as error:
        raise UnreachableError(str(error)) from error
    try:
        client.start(CONNECT_TIMEOUT_S)
    except (KazooException, KazooTimeoutError) as error:
        client.stop()
        client.close()
        raise UnreachableError(f"{zookeeper}: {error or type(error).__name__}") from error
    try:
        yield client
    except (KazooException, KazooTimeoutError) as error:
        raise ElectionError(f"{zookeeper}: {error or type(error).__name__}") from error
    except ZnodeError as error:
        raise ElectionError(f"{zookeeper}: {error}") from error
    finally:
        client.stop()
        client.close()


def _need_zookeeper_mode(client: KazooClient) -> None:
    try:
        data, _ = client.get(controller_znode.PATH)
    except NoNodeError:
        raise ElectionError("/controller is absent: no controller would act on it") from None
    holder = controller_znode.parse(data)
    if holder.kraft_epoch >= 0:
        raise ElectionError(
            f"a KRaft controller (node {holder.broker_id}) leads this cluster, and none "
            f"reads {ELECTION}; use --bootstrap-server"
        )


def _assigned(client: KazooClient) -> dict[TopicPartition, int]:
    """Partition -> preferred replica."""
    found = {}
    for topic in sorted(client.get_children(ROOT)):
        path = topic_path(topic)
        data, _ = client.get(path)
        for index, replicas in parse_topic(path, data).partitions.items():
            if not replicas:
                raise ZnodeError(path, f"partition {index} has no replicas")
            found[topic, index] = replicas[0]
    return found


def _leader(client: KazooClient, partition: TopicPartition) -> int:
    path = state_path(*partition)
    try:
        data, _ = client.get(path)
    except NoNodeError:
        return -1
    return parse_state(path, data).leader


def _ask(client: KazooClient, partitions: Sequence[TopicPartition]) -> None:
    wanted = [{"topic": topic, "partition": index} for topic, index in partitions]
    try:
        client.create(ELECTION, znode_json.encode({"version": 1, "partitions": wanted}))
    except NodeExistsError:
        raise ElectionError(f"an election is under way already: {ELECTION} exists") from None


def _wait(client: KazooClient, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while client.exists(ELECTION) is not None:
        if time.monotonic() > deadline_s:
            raise ElectionError(
                f"no controller processed {ELECTION} within {timeout_s:g} s; the znode still exists"
            )
        time.sleep(PAUSE_S)
