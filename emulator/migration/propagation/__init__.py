"""LeaderAndIsr, UpdateMetadata and StopReplica for brokers in ZooKeeper mode."""
