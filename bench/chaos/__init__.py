"""Real controllers, brokers and ZooKeeper under random faults, and what their clients were told."""
