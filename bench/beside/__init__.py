"""Our controller beside Kafka 3.9.2's own: one scenario, one ZooKeeper, one client, in turns.

``python -m bench.beside`` creates topics on one controller after the other, each in a tree of its
own, and prints what each of them achieved and the ratio. Each row says how busy the rest of the
machine was; a comparison of trees that differ is void. ``--recording`` compares our controller with
and without its trace instead. Needs Linux (``/proc``), the jars and a Java.
"""
