"""Models of what surrounds a node: ZooKeeper, disks, the network, brokers, processes."""
