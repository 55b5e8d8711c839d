"""A ZooKeeper client as a pure machine over bytes: requests, sessions, fencing after a loss.

Knows no Kafka and no socket. ``ops`` is the vocabulary, ``jute`` the bytes, ``client`` the machine.
"""
