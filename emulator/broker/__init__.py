"""A broker in ZooKeeper mode that migrates, as far as its controller can see: one pure machine."""
