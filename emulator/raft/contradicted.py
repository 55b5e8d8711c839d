"""A leader whose log lacks what was committed here: this voter stops, and does not start again.

Either the folders of a majority were emptied or restored from old copies, or this one holds records
that the quorum never had. Whoever truncates decides it, so an operator must. The file keeps a
supervisor, which starts the process again, from deciding.

Source: KafkaRaftClient.truncateToEndOffset, Kafka 3.9, which throws, and after a restart, when it
has forgotten the high watermark, truncates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulator.raft import layout
from emulator.raft.errors import RecoveryError
from emulator.raft.log import MetadataLog
from emulator.raft.replica import Replica
from emulator.seam import Effect, Halt, Log, ReplaceFile
from wire.batch import HEADER_BYTES, batch_crc_holds, batch_header

_WAY_OUT: Final = (
    "The folders of other voters were emptied or restored from old copies, or this one is not of "
    "their quorum; nothing was changed. To keep what this node has, stop all voters, give the "
    f"others a copy of its folder {layout.FOLDER}, then remove this file from all. To give it up, "
    f"remove the folder {layout.FOLDER} of this node: it loads the leader's log"
)


def contradicted(replica: Replica, lacks: str) -> list[Effect]:
    """Stop this voter for good.

    Args:
        replica: of this voter; unchanged.
        lacks: the end of a sentence about the leader, with what it does.
    """
    quorum = replica.quorum
    why = (
        f"node {quorum.leader_id} leads epoch {quorum.epoch} {lacks}, but all below "
        f"{replica.committed_end} was committed here"
    )
    return [
        *replica.recovery_point.write(replica.committed_end),
        ReplaceFile(layout.CONTRADICTED, f"{why}\n".encode()),
        Log("error", "the leader lacks what was committed here", {"why": why}),
        Halt(1, f"{why}. {_WAY_OUT}"),
    ]


def other_batch(log: MetadataLog, data: bytes) -> int | None:
    """Offset of a leader's batch that begins in our log and ends beyond it; None: there is none.

    Logs of one quorum that have one epoch at an offset are the same up to there, and batches are
    appended whole. So this is the log of another quorum, as of an earlier one with this cluster id.

    Raises:
        DecodeError: ``data`` does not begin with a batch.
    """
    if len(data) < HEADER_BYTES:
        return None
    header = batch_header(data)
    begins, ends = header.base_offset, header.last_offset
    if not log.start_offset <= begins < log.end_offset <= ends or header.size > len(data):
        return None
    same = header.leader_epoch == log.last_epoch
    return begins if same and batch_crc_holds(data, 0) else None


def refuse_contradicted(files: Mapping[str, bytes]) -> None:
    """Refuse to start while an operator has not decided.

    Raises:
        RecoveryError: the file is there; the text says what it says, and the way out.
    """
    data = files.get(layout.CONTRADICTED)
    if data is not None:
        why = data.decode(errors="replace").strip()
        raise RecoveryError(layout.CONTRADICTED, None, f"{why}. {_WAY_OUT}")
