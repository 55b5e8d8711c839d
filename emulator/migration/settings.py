"""What the migration needs of the node's configuration, with the defaults and why they are so."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.config.load import Config
from emulator.config.passwords import PasswordSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration of the migration driver and the write-behind.

    ``write_behind_max_records``: 10,000 is one metadata batch of the largest size, about a second
    of ZooKeeper's time (13,000 to 50,000 partitions a second measured): a caller never waits long
    behind a healthy ZooKeeper, and what a crash leaves to reconcile stays small. 0 is no bound, as
    in Kafka.
    """

    node_id: int
    cluster_id: str
    voters: frozenset[int] = frozenset()
    inter_broker_listener_name: str = "PLAINTEXT"
    migration_min_batch_size: int = 200
    write_behind_max_records: int = 10_000
    write_behind_poison: str = "block"
    write_behind_multi_ops: int = 400
    passwords: PasswordSettings = PasswordSettings()  # noqa: RUF009  # frozen

    @classmethod
    def of(cls, config: Config, cluster_id: str) -> Settings:
        """Take what concerns migration from the node's configuration and its folder."""
        return cls(
            node_id=config.node_id,
            cluster_id=cluster_id,
            voters=frozenset(config.voters),
            inter_broker_listener_name=config.inter_broker_listener_name,
            migration_min_batch_size=config.migration_min_batch_size,
            write_behind_max_records=config.write_behind_max_records,
            write_behind_poison=config.write_behind_poison,
            write_behind_multi_ops=config.write_behind_multi_ops,
            passwords=config.passwords,
        )
