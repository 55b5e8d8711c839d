"""``kraft-bridge zk``: start a ZooKeeper, dump a tree, compare it with a controller."""
