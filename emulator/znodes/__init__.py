"""Converts between images and znodes: one module per subtree of ZooKeeper.

``topics configs producer_id controller migration own brokers admin`` parse and render; ``reader``
reads a whole tree; ``projection`` gives the znodes of an image. JSON is compared by content, never
by bytes.
"""
