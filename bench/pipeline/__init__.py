"""CPU time of the write-behind: planning, encoding, answers, per partition, without any server."""
