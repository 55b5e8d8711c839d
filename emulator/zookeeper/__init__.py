"""A ZooKeeper client as a pure machine over bytes: requests, sessions, fencing after a loss.

Depends on neither Kafka nor sockets. ``ops`` has the requests and results, ``jute`` their encoding,
``client`` the machine.
"""
