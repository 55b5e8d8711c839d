"""Step 2: three controllers beside the running cluster, brokers restarted one by one."""

from __future__ import annotations

import contextlib

from bench.demo.narrator import Narrator
from bench.demo.seed import DELETION, LEAVING, ask, unheard
from bench.demo.stage import Stage
from bench.demo.watch import Watch
from bench.load import cluster_api as api
from emulator.servers.kafka import KafkaBroker
from emulator.servers.waiting import PATIENCE_S, wait_for
from wire.errors import ErrorCode


def migrate(stage: Stage, narrator: Narrator) -> None:
    """Start the controllers, restart the brokers in migration mode, and wait for dual write.

    Raises:
        ProcessError: a server did not do what it should.
    """
    cluster_id = stage.znode("/cluster/id")["id"]
    epoch_before = stage.znode("/controller_epoch")
    controllers = stage.controllers
    controllers.start(cluster_id)
    for number, node in controllers.nodes.items():
        narrator.print_line(f"kraft-bridge controller, node {number}: live page at {node.url}/")
    held_back = False
    with Watch(controllers, narrator, [broker.id for broker in stage.cluster.brokers]) as watch:
        for broker in stage.cluster.brokers:
            watch.doing(f"broker {broker.id} restarts with zookeeper.metadata.migration.enable")
            broker.stop(PATIENCE_S)
            if broker is stage.cluster.brokers[-1]:
                held_back = _ask_for_a_deletion(stage)
            broker.migrate(controllers.port)
            broker.extra["controller.quorum.voters"] = controllers.voters
            broker.start().wait_started(PATIENCE_S)
            watch.doing(f"broker {broker.id} is back; waiting until its replicas are in sync")
            _wait_in_sync(stage, broker)
        watch.doing("all brokers are back; waiting until both stores are written")
        controllers.wait_dual_write()
        controllers.wait_drained()
        watch.doing("both stores are written")
    stage.clients.check()
    # Not where it is seen: a terminal redraws the status there, over any other line.
    narrator.check(
        f"the deletion of topic {LEAVING} was pending",
        held_back,
        f"{DELETION} waited for broker {stage.cluster.brokers[-1].id}, which holds replicas",
    )
    _check(stage, narrator, watch, epoch_before)


def _ask_for_a_deletion(stage: Stage) -> bool:
    """Delete a topic while a broker that holds a replica is down; whether Kafka holds that back.

    Not by a reassignment under way: Kafka 3.9.2 deletes such a topic at once. TopicDeletionManager
    marks it as ineligible before it is queued, which has no effect.
    """
    alive = [broker for broker in stage.cluster.brokers if broker.alive]

    def asked() -> bool:
        seen = stage.shape(alive[0])
        if seen.controller_id not in {broker.id for broker in alive}:
            return False
        controller = seen.brokers[seen.controller_id]
        try:
            error = ask(lambda: api.delete_topic(controller, LEAVING))
        except OSError:
            return False
        # The last one: an attempt that had no answer in time was carried out.
        return error in {
            ErrorCode.NONE,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    wait_for(f"controller that deletes {LEAVING}", asked, PATIENCE_S)
    return stage.stat(DELETION) is not None


def _wait_in_sync(stage: Stage, broker: KafkaBroker) -> None:
    def whole() -> bool:
        seen = stage.shape(broker)
        return len(seen.brokers) == len(stage.cluster.brokers) and not unheard(seen)

    wait_for("replicas in sync", whole, PATIENCE_S)


def _check(stage: Stage, narrator: Narrator, watch: Watch, epoch_before: int) -> None:
    controllers = stage.controllers

    def owned() -> bool:
        controllers.wait_dual_write()  # of the controller that leads now
        owner = stage.znode("/controller")
        return owner is not None and owner["brokerid"] == controllers.leader

    with contextlib.suppress(TimeoutError):
        wait_for("claim of the leading controller", owned, PATIENCE_S)
    owner, claim = stage.znode("/controller"), stage.stat("/controller")
    narrator.check(
        "the leading controller owns ZooKeeper's /controller",
        owner["brokerid"] == controllers.leader and claim.ephemeralOwner == 0,
        f"node {owner['brokerid']}, epoch {epoch_before} -> {stage.znode('/controller_epoch')}",
    )
    # The last change among its children is this deletion, the only one there ever was.
    finished = stage.stat("/admin/delete_topics").pzxid
    gone = [DELETION, f"/brokers/topics/{LEAVING}", f"/config/topics/{LEAVING}"]
    left = [path for path in gone if stage.stat(path) is not None]
    what = "the pending deletion was finished by the migration"
    if finished < claim.czxid and not left:
        first = f"a broker finished it before the claim (zxid {finished} < {claim.czxid})"
        narrator.check_speed(what, False, first, "run it again to see it")
    else:
        found = "it was still pending when the controller claimed /controller" + "".join(
            f"; {path} is left" for path in left
        )
        narrator.check(what, not left, found)
    state = controllers.wait_dual_write()["migration"]["driver_state"]
    narrator.check(
        "dual write",
        state == "DUAL_WRITE" and watch.copied > 0,
        f"{watch.copied} records copied; states seen of the driver: {' > '.join(watch.states)}",
    )
