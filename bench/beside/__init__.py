"""Our controller beside Kafka 3.9.2's own: the same scenario, ZooKeeper and client, in turns.

``python -m bench.beside`` creates topics on one controller after the other, each in a tree of its
own, and prints what each of them achieved and the ratio. Each row says how busy the rest of the
machine was; a comparison is void if the resulting trees differ. ``--recording`` compares our
controller with and without its trace instead. Needs Linux (``/proc``), the jars and a Java.
"""
