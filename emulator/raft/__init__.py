"""The metadata log and its quorum: elections, durability, replication by Fetch, snapshots."""

from emulator.raft.config import RaftConfig
from emulator.raft.layout import AppendRefusedError, RecoveryError, SnapshotId
from emulator.raft.machine import Raft

__all__ = ["AppendRefusedError", "Raft", "RaftConfig", "RecoveryError", "SnapshotId"]
