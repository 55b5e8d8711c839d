"""The configuration of the migration, with the defaults and their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from emulator.config.load import Config
from emulator.config.passwords import PasswordSettings
from emulator.migration.dual_write.bound import Bounds
from emulator.migration.position import Claimer
from wire.text import uuid_text

HARD_FACTOR: Final = 2
"""Factor from the first bound to the second, unless the second is configured."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration of the migration driver and the write-behind.

    ``write_behind_max_records``: 10,000 is one metadata batch of the largest size, about a second
    of ZooKeeper's time (13,000 to 50,000 partitions a second measured): a caller never waits long
    while ZooKeeper is healthy, and little is left to reconcile after a crash. 0 is no bound, as in
    Kafka.

    ``write_behind_hard_max_records``: the bound at which deletions and operations that brokers need
    wait too. At twice the first bound they have as much room as all others; 0 is no bound, of bytes
    neither.

    ``write_behind_max_bytes``: 64 MiB is eight metadata batches of the largest size; with small
    records the bound of records is reached first. ``write_behind_max_age_ms``: 0, as a pause of
    ZooKeeper alone does no harm.

    ``incarnation``: random id of the process.
    """

    node_id: int
    cluster_id: str
    voters: frozenset[int] = frozenset()
    inter_broker_listener_name: str = "PLAINTEXT"
    migration_min_batch_size: int = 200
    write_behind_max_records: int = 10_000
    write_behind_hard_max_records: int = 20_000
    write_behind_max_bytes: int = 0
    write_behind_max_age_ms: int = 0
    write_behind_poison: str = "block"
    write_behind_multi_ops: int = 400
    passwords: PasswordSettings = PasswordSettings()  # noqa: RUF009  # frozen
    incarnation: str = field(kw_only=True)

    @property
    def bounds(self) -> Bounds:
        """The bounds on how far the log may be ahead of ZooKeeper."""
        hard = self.write_behind_hard_max_records or not self.write_behind_max_records
        return Bounds(
            records=self.write_behind_max_records,
            hard_records=self.write_behind_hard_max_records,
            bytes=self.write_behind_max_bytes,
            hard_bytes=HARD_FACTOR * self.write_behind_max_bytes if hard else 0,
            age_ms=self.write_behind_max_age_ms,
        )

    def claimer(self, kraft_epoch: int) -> Claimer:
        """The claimer for a leader epoch."""
        return Claimer(self.node_id, kraft_epoch, self.incarnation, len(self.voters) > 1)

    @classmethod
    def of(cls, config: Config, cluster_id: str, incarnation_id: bytes) -> Settings:
        """The settings from configuration, folder and process."""
        bound, hard = config.write_behind_max_records, config.write_behind_hard_max_records
        return cls(
            node_id=config.node_id,
            cluster_id=cluster_id,
            voters=frozenset(config.voters),
            inter_broker_listener_name=config.inter_broker_listener_name,
            migration_min_batch_size=config.migration_min_batch_size,
            write_behind_max_records=bound,
            write_behind_hard_max_records=HARD_FACTOR * bound if hard < 0 else hard,
            write_behind_max_bytes=config.write_behind_max_bytes,
            write_behind_max_age_ms=config.write_behind_max_age_ms,
            write_behind_poison=config.write_behind_poison,
            write_behind_multi_ops=config.write_behind_multi_ops,
            passwords=config.passwords,
            incarnation=uuid_text(incarnation_id),
        )
