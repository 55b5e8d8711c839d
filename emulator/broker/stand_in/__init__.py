"""A stand-in for a migrating ZooKeeper-mode broker, as its controller sees it: one pure machine."""
