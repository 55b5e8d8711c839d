"""Writes committed changes to ZooKeeper: in order, in a chain of multis, within a bound."""
