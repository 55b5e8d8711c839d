"""Predicts when ZooKeeper blocks changes; real servers are then measured beside it."""
