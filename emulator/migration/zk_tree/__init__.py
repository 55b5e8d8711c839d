"""Images as znodes and znodes as entities: one module per subtree of ZooKeeper.

``topics configs producer_id controller migration own brokers admin`` parse and render; ``reader``
reads a whole tree; ``projection`` says which znodes an image stands for. Bytes of JSON are never
compared, only what they say.
"""
