"""A broker in ZooKeeper mode: its znode, control requests, what it knows of the cluster."""
