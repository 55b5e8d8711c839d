"""Topics that a broker goes on showing after it got everything.

Brokers up to 3.6.0 merge an UpdateMetadata of type FULL into what they know: what it leaves out
stays. So if a topic was deleted while a former controller could not propagate the deletion to
a broker, that broker shows the topic until it starts again. Such a broker is asked what it shows,
after everything else, and then gets the deletion.

Source: ZkMetadataCache.updateMetadata, Kafka 3.4.1, 3.6.0 and 3.6.1 (KAFKA-15799). Kafka's
controllers ask nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from emulator.metadata.brokers import Broker
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.topics import Topic
from emulator.migration.telling import propagation as build
from wire import messages as m

DROPS_WHAT_IS_LEFT_OUT: Final = 15
"""metadata.version of 3.7-IV0. Brokers of 3.6.1 and later drop what a FULL request leaves out, but
register with the level of 3.6.0, which does not."""


def keeps_what_is_left_out(broker: Broker) -> bool:
    """Whether it is to be asked. In ZooKeeper mode it registers its inter-broker version alone."""
    level = broker.features.get(FEATURE_NAME)
    return level is not None and level[1] < DROPS_WHAT_IS_LEFT_OUT


def question() -> m.MetadataRequest:
    """What a broker is asked: all topics, and to create none."""
    return m.MetadataRequest(topics=None, allow_auto_topic_creation=False)


def leftover(
    sender: build.Sender, image: Image, shown: m.MetadataResponse
) -> list[build.UpdateTopic]:
    """Topic states that make a broker remove what it shows and ``image`` lacks.

    Args:
        sender: the values of this controller.
        image: everything, newer than what the broker knew when it answered.
        shown: its answer. Without the right to describe a topic it does not name it.
    """
    request = m.UpdateMetadataRequest
    found = []
    for topic in shown.topics:
        if topic.name is None:
            continue  # only of a topic that was asked for by an id
        known = image.topic(topic.name)
        lacking = list(_lacking(topic.partitions, known))
        if not lacking:
            continue
        states = [
            request.UpdateMetadataPartitionState(
                partition_index=one.partition_index,
                controller_epoch=sender.zk_epoch,
                leader=build.LEADER_DURING_DELETE,
                leader_epoch=0,
                isr=one.isr_nodes,
                zk_version=0,
                replicas=one.replica_nodes,
                offline_replicas=one.offline_replicas,
            )
            for one in lacking
        ]
        # A state without an id makes the broker forget the id.
        topic_id = build.ZERO_UUID if known is None else known.id
        found.append(
            request.UpdateMetadataTopicState(
                topic_name=topic.name, topic_id=topic_id, partition_states=states
            )
        )
    return found


def _lacking(
    partitions: Iterable[m.MetadataResponse.MetadataResponsePartition], known: Topic | None
) -> Iterable[m.MetadataResponse.MetadataResponsePartition]:
    if known is None:
        return partitions
    return (one for one in partitions if one.partition_index not in known.partitions)
