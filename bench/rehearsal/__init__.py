"""A whole migration on a dumped tree: real ZooKeeper, our controllers, emulated brokers."""
