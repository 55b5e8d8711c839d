"""Log lines of ``kraft-bridge broker``."""

from __future__ import annotations

from typing import Final

from emulator.trace.log_event import LogEvent

BROKER_LOG_EVENTS: Final = (
    LogEvent(
        "broker_registered",
        "info",
        "registered",
        "The controller has registered this broker, with the epoch `broker_epoch`.",
    ),
    LogEvent(
        "broker_state_changed",
        "info",
        "broker state",
        "Kafka's BrokerState of this broker has changed.",
    ),
    LogEvent(
        "controller_refuses_broker",
        "warning",
        "the controller refuses",
        "A registration or a heartbeat is refused, as `why` says; it is repeated. Do what `hint` "
        "says, if there is one.",
    ),
    LogEvent(
        "controller_not_answering",
        "warning",
        "the controller does not answer",
        "A registration or a heartbeat got no answer, and is repeated: look whether a controller "
        "leads.",
    ),
    LogEvent(
        "controller_not_reached",
        "warning",
        "no controller is reached yet",
        "Compare `controller.quorum.voters` with the addresses of the controllers, and look "
        "whether they run.",
    ),
    LogEvent(
        "metadata_leader_lost",
        "warning",
        "lost the leader of the metadata log",
        "The controller that was followed is gone, and another one is looked for; nothing to do "
        "unless it lasts.",
    ),
    LogEvent(
        "controller_refuses_fetch",
        "warning",
        "a controller refuses Fetch requests",
        "It is repeated. Compare cluster id and properties with those of the controllers; do what "
        "`hint` says, if there is one.",
    ),
    LogEvent(
        "no_common_api_version",
        "warning",
        "no common version of a request with a controller",
        "The releases of broker and controller do not fit: another controller is tried.",
    ),
    LogEvent(
        "controller_response_invalid",
        "warning",
        "a controller sent an invalid response",
        "It cannot be used, as `why` says; another controller is tried. If that lasts, report it.",
    ),
    LogEvent(
        "controlled_shutdown_started",
        "info",
        "stopping: the controller moves what this broker leads",
        "An orderly stop has begun.",
    ),
    LogEvent(
        "controlled_shutdown_refused",
        "warning",
        "controlled shutdown refused",
        "The controller cannot move every leader, as `why` says; it is asked `tries_left` times "
        "more, then this broker ends all the same. Look for partitions without another replica in "
        "sync.",
    ),
    LogEvent(
        "broker_znode_registered",
        "info",
        "registered in zookeeper",
        "This broker has its znode below /brokers/ids.",
    ),
    LogEvent(
        "broker_znode_failed",
        "error",
        "registration in zookeeper failed",
        "This broker is not in /brokers/ids, for the cause in `why`; it is tried again after "
        "`retry_ms`. Look whether another broker has the id.",
    ),
    LogEvent(
        "zookeeper_controller_changed",
        "info",
        "controller in zookeeper",
        "/controller names another controller: `broker_id`, -1 for none.",
    ),
    LogEvent(
        "controller_znode_unreadable",
        "warning",
        "cannot read /controller in zookeeper",
        "Until it can be read this broker knows no controller: look at the znode and its ACL.",
    ),
    LogEvent(
        "controller_epoch_unreadable",
        "warning",
        "controller epoch",
        "/controller_epoch is no number, as `why` says: look who wrote it.",
    ),
    LogEvent(
        "feature_znode_unreadable",
        "warning",
        "cannot read /feature in zookeeper",
        "This broker offers no finalised features: look at the znode and its ACL.",
    ),
    LogEvent(
        "zookeeper_configs_unreadable",
        "warning",
        "configs in zookeeper",
        "A znode of a config, or a notification of a change, cannot be read, and is left out: look "
        "at what `why` names.",
    ),
    LogEvent(
        "znode_left_out",
        "warning",
        "znode left out",
        "A znode has no meaning for this broker, as `why` says: look who wrote it.",
    ),
)
