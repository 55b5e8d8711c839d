"""A broker in KRaft mode: the log it follows, its registration, the replicas it hosts."""
