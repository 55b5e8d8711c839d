"""zk_tree."""
