"""Real ZooKeeper, real Kafka servers and a fault proxy, as child processes of this one."""
