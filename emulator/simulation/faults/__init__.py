"""Named faults: each a recipe that begins now and ends by itself after some time.

None of them breaks a promise of ZooKeeper, TCP or a disk: everything here was seen, or may be seen,
with the real ones (``docs/dev/simulation.md`` says where).
"""

from __future__ import annotations

from typing import Final

from emulator.simulation.faults import brokers, controllers, disks, network, taken, zookeeper
from emulator.simulation.faults.strike import Recipe

RECIPES: Final[dict[str, Recipe]] = {
    "controller-crash": controllers.controller_crash,
    "controller-crash-in-step": controllers.controller_crash_in_step,
    "controller-kill": controllers.controller_kill,
    "controller-shutdown": controllers.controller_shutdown,
    "controller-pause": controllers.controller_pause,
    "controller-cloned": controllers.controller_cloned,
    "disk-slow": disks.disk_slow,
    "disk-error": disks.disk_error,
    "disk-forgets": disks.disk_forgets,
    "disk-rots": disks.disk_rots,
    "disk-full": disks.disk_full,
    "disk-reorders": disks.disk_reorders,
    "disk-restored": controllers.disk_restored,
    "rollback": controllers.rollback,
    "lost-reply": zookeeper.lost_reply,
    "lost-replies": zookeeper.lost_replies,
    "zookeeper-freeze": zookeeper.zookeeper_freeze,
    "zookeeper-restart": zookeeper.zookeeper_restart,
    "zookeeper-refuses": zookeeper.zookeeper_refuses,
    "stale-server": zookeeper.stale_server,
    "session-expiry": zookeeper.session_expiry,
    "foreign-write": zookeeper.foreign_write,
    "foreign-znodes": zookeeper.foreign_znodes,
    "both-counters": zookeeper.both_counters,
    "epoch-bumped": taken.epoch_bumped,
    "controller-deleted": taken.controller_deleted,
    "cut": network.cut,
    "network-slow": network.network_slow,
    "delayed-bytes": network.delayed_bytes,
    "broker-cut": network.broker_cut,
    "broker-death": brokers.broker_death,
    "broker-shutdown": brokers.broker_shutdown,
    "broker-leaves": brokers.broker_leaves,
}
