"""Scenarios run on several controllers, row by row: ``kraft-bridge bench``.

A scenario is a TOML file of ``bench/scenarios``; a row is one case of it on one target, once. Each
row has a ZooKeeper, a controller and brokers of its own. Load comes at times fixed beforehand, and
a latency counts from when the request was due. Rows stay on the disk, so that an interrupted run
goes on where it ended. docs/bench.md has the layout of a run's folder.
"""
