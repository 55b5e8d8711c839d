"""The test kit: real ZooKeeper, real brokers, a fault proxy, and a record of what was proven."""
