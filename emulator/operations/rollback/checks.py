"""What stands in the way of going back, and what it costs: findings in the form of preflight's.

A blocker keeps ``--yes`` from doing anything. Those of ``losses.py`` are about changes
that would be lost, and are passed with ``--accept-loss``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.config.zookeeper_mode import KEYS
from emulator.operations.preflight.engine import Finding, Severity, finding
from emulator.operations.preflight.node_file import number
from emulator.operations.preflight.stage import emptied
from emulator.operations.rollback.losses import LOSSES, losses
from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import Situation
from emulator.znodes import controller, migration, own
from emulator.znodes.controller import EPOCH_MAX
from emulator.znodes.tree import ZnodeError

_BEFORE: Final = frozenset(
    {RollbackPhase.COPYING, RollbackPhase.DUAL_WRITE, RollbackPhase.PRE_MIGRATION}
)
_BLOCKER, _WARNING, _INFO = Severity.BLOCKER, Severity.WARNING, Severity.INFO


def checks(seen: Situation, phase: RollbackPhase, *, stopped: bool = False) -> list[Finding]:
    """All findings, blockers first.

    Args:
        seen: what was looked at.
        phase: what it shows.
        stopped: whether the operator says that controllers which cannot be asked are stopped.
    """
    found = [
        *_stage(seen, phase),
        *_brokers(seen, phase),
        *losses(seen, phase),
        *_controllers(seen, phase, stopped=stopped),
        *_epochs(seen, phase),
        *_znodes(seen, phase),
        *_meta(seen),
    ]
    order = list(Severity)
    found.sort(key=lambda one: order.index(one.severity))
    return found


def blocking(findings: list[Finding], *, accept_loss: bool) -> list[Finding]:
    """The findings that keep ``--yes`` from doing anything."""
    found = (one for one in findings if one.severity is _BLOCKER)
    return [one for one in found if not (accept_loss and one.code in LOSSES)]


def _stage(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R01 to R03: finalised, not to be told, somebody else's, emptied."""
    if phase is RollbackPhase.FINALISED:
        yield finding(
            "R01",
            migration.PATH,
            "the migration is finalised: ZooKeeper was not written since",
            "going back would lose every change of metadata since then, and with it records: "
            "partitions that ZooKeeper does not know are deleted by the brokers, and leaders of "
            "old are elected. It can be done only offline, with all brokers and controllers "
            "stopped, and is not done by this command",
            "stay in KRaft mode; RB-R06 lists what would be lost, as kraft-bridge zk diff does",
            "KIP-866, Finalizing the Migration",
            _BLOCKER,
        )
    if phase is RollbackPhase.UNKNOWN:
        yield finding(
            "R02",
            migration.PATH,
            seen.stage.text,
            "it is not known whether the cluster can go back",
            "give -c or --log-dir of its controllers; repair a znode that cannot be read",
            "",
            _BLOCKER,
        )
    holder, ids = seen.stage.holder, seen.survey.controller_ids
    if seen.stage.in_kraft and holder is not None and ids and holder.broker_id not in ids:
        yield finding(
            "R03",
            controller.PATH,
            f"KRaft controller {holder.broker_id} holds it, and is none of those given",
            "another quorum has the cluster; stopping yours gives nothing back",
            "give -c of the controllers of that quorum",
            "",
            _BLOCKER,
        )
    cluster_id = seen.survey.json("/cluster/id").get("id")
    for name, other_id in seen.clusters:
        if cluster_id and other_id and other_id != cluster_id:
            yield finding(
                "R03",
                name,
                f"is of cluster {other_id}, and this is the ZooKeeper of {cluster_id}",
                "controllers of another cluster would be stopped",
                "give the files and the ZooKeeper of one cluster",
                "",
                _BLOCKER,
            )
    if phase in _BEFORE and emptied(seen.survey):
        yield finding(
            "R03",
            "/brokers/topics",
            "every topic is gone from ZooKeeper",
            "after going back brokers would delete or rename the folders of their partitions",
            "restore ZooKeeper from a backup that has the topics, with everything stopped. If you "
            "deleted the last topic yourselves, create one",
            "KAFKA-17146",
            _BLOCKER,
        )


def _brokers(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R04: brokers in KRaft mode; no broker that could be elected."""
    if phase not in _BEFORE:
        return
    for broker_id in seen.in_kraft_mode:
        yield finding(
            "R04",
            f"/brokers/ids/{broker_id}",
            f"broker {broker_id} is registered in KRaft mode",
            "without the controllers it can do nothing: its partitions have no leader there until "
            "it is restarted",
            f"{'first do what RB-R05 asks for; then ' if seen.without_flag else ''}"
            "restart it in ZooKeeper mode, with zookeeper.metadata.migration.enable=true, while "
            f"the controllers still run; if it is gone for good: kafka-cluster.sh unregister --id "
            f"{broker_id}"
            if seen.running
            else f"restart it in ZooKeeper mode, without {KEYS}, once a broker is the controller",
            "KIP-866, Rollback to ZK",
            _BLOCKER if seen.running else _WARNING,
        )
    if seen.modes is None and phase is RollbackPhase.DUAL_WRITE:
        absent = sorted(seen.survey.assigned - seen.survey.live_brokers)
        if absent:
            names = ", ".join(map(str, absent))
            yield finding(
                "R04",
                "/brokers/ids",
                f"brokers {names} have replicas and are absent: stopped, or in KRaft mode",
                "those in KRaft mode have no controller after this",
                "give -c of the controllers to see which; restart those in ZooKeeper mode",
                "",
                _WARNING,
            )
    if not seen.survey.live_brokers:
        yield finding(
            "R04",
            "/brokers/ids",
            "no broker runs in ZooKeeper mode",
            "none can be elected: the cluster has no controller until a broker is started",
            "start a broker in ZooKeeper mode",
            "",
            _BLOCKER if seen.running else _WARNING,
        )


def _controllers(seen: Situation, phase: RollbackPhase, *, stopped: bool) -> Iterator[Finding]:
    """R07: controllers that run, and those that cannot be asked."""
    if phase not in {*_BEFORE, RollbackPhase.RELEASED, RollbackPhase.ROLLED_BACK}:
        return
    if not seen.controllers and phase in _BEFORE:
        yield finding(
            "R07",
            controller.PATH,
            "no controller was given",
            "a controller that still runs would go on to acknowledge changes that are lost",
            "give -c of each controller; or stop them all, and give --stopped",
            "",
            _INFO if stopped else _BLOCKER,
        )
    for one in seen.unknown:
        yield finding(
            "R07",
            one.name,
            f"it is not known whether {one.text} runs{f': {one.why}' if one.why else ''}",
            "if it still runs it may acknowledge changes that are lost",
            "make sure that it is stopped (a machine that is off, or a container that is gone, "
            "counts as stopped if nothing starts it again), and give --stopped",
            "",
            _INFO if stopped else _BLOCKER if phase in _BEFORE else _WARNING,
        )
    for one in seen.running if phase is RollbackPhase.ROLLED_BACK else ():
        yield finding(
            "R07",
            one.name,
            f"{one.text} runs although the cluster is rolled back",
            "it is refused by ZooKeeper, and does nothing",
            "stop it",
            "",
            _WARNING,
        )


def epoch_min(seen: Situation) -> int:
    """The highest epoch in states of partitions, and of the quorum; -1 if none is known."""
    survey = seen.survey
    found: list[object] = [one.election_epoch for one in survey.folders]
    found += [one.status.get("leader_epoch") for one in seen.controllers if one.status]
    found += [
        survey.json(path).get("controller_epoch")
        for path, node in survey.below("/brokers/topics")
        if path.endswith("/state") and node.data is not None
    ]
    # A value that no broker can read is no epoch.
    return max((x for x in found if isinstance(x, int) and x < EPOCH_MAX - 1), default=-1)


def _epochs(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R08: the epoch of the next controller."""
    if phase not in _BEFORE:
        return
    try:
        epoch = controller.parse_epoch(seen.survey.data(controller.EPOCH_PATH))
    except ZnodeError as error:
        yield finding(
            "R08",
            controller.EPOCH_PATH,
            f"cannot be read: {error}",
            "the next controller would begin with epoch 1, and brokers that know a higher one "
            "refuse it (STALE_CONTROLLER_EPOCH)",
            "write the last epoch that the brokers know: it is in the log of each"
            + ("" if seen.mine is None else f", and {seen.mine.zk_epoch} in {own.PATH}"),
            "",
            _BLOCKER,
        )
        return
    needed = epoch_min(seen)
    low = needed > epoch
    yield finding(
        "R08",
        controller.EPOCH_PATH,
        f"{epoch}; the highest epoch in the log and in states of partitions is {needed}"
        if needed >= 0
        else f"{epoch}",
        f"the next controller has epoch {max(epoch, needed) + 1}"
        + (f", as it is raised to {needed} with the release" if low else ""),
        "never delete it",
        "KAFKA-20488",
        _INFO,
    )


def _znodes(seen: Situation, phase: RollbackPhase) -> Iterator[Finding]:
    """R09: what is ephemeral and what is not; our own znode."""
    nodes, holder = seen.survey.nodes, seen.stage.holder
    held = nodes.get(controller.PATH)
    if held is not None and holder is not None and not seen.stage.in_kraft and not held.ephemeral:
        yield finding(
            "R09",
            controller.PATH,
            f"names broker {holder.broker_id} in ZooKeeper mode, and is persistent",
            "it stays when that broker ends, and no other is elected then",
            "delete it: the brokers elect a controller at once",
            "",
            _WARNING,
        )
    if held is not None and seen.stage.in_kraft and held.ephemeral:
        yield finding(
            "R09",
            controller.PATH,
            "names a KRaft controller, and is ephemeral",
            "no KRaft controller writes it so: it goes with the session of whoever made it",
            "",
            "",
            _WARNING,
        )
    for broker_id in sorted(seen.survey.live_brokers):
        path = f"/brokers/ids/{broker_id}"
        if not nodes[path].ephemeral:
            yield finding(
                "R09",
                path,
                "is persistent",
                "it does not show that the broker runs, and the broker does not start beside it",
                f"delete it if broker {broker_id} does not run",
                "",
                _WARNING,
            )
    if own.PATH in nodes and seen.mine is None:
        yield finding(
            "R09",
            own.PATH,
            "cannot be read",
            "it cannot be marked, so that a quorum started again might claim",
            "delete it if no controller runs",
            "",
            _BLOCKER if phase in _BEFORE else _WARNING,
        )


def _meta(seen: Situation) -> Iterator[Finding]:
    """R10: meta.properties of the brokers' folders."""
    for one in seen.broker_folders:
        version = one.meta.get("version", "")
        written = number(one.meta.get("broker.id" if version == "0" else "node.id", ""))
        mine = one.node_id if one.node_id is not None else written
        if version == "1":
            yield finding(
                "R10",
                one.name,
                "meta.properties has version 1, as kafka-storage writes it",
                "the broker does not start in ZooKeeper mode without migration, which needs "
                "version 0",
                f"write version=0 and broker.id={mine} instead of node.id, before the last restart",
                "KAFKA-20762",
                _WARNING,
            )
        elif version != "0":
            yield finding(
                "R10",
                one.name,
                f"meta.properties has version {version or 'none'}",
                "the broker does not start: 0 and 1 are known",
                "restore the file",
                "KAFKA-20762",
                _WARNING,
            )
        elif written != mine:
            yield finding(
                "R10",
                one.name,
                f"broker.id {written} in meta.properties, and the file says {mine}",
                "the broker does not start: the folder is another node's",
                "give the broker its own folder, or its own id",
                "",
                _WARNING,
            )
