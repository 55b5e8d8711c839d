"""Stand-in brokers: migrating brokers in ZooKeeper mode as far as a controller can see.

All brokers of a fleet live in one asyncio process. Each has its ephemeral znode, registers with the
controller, sends heartbeats and judges every control request as a real broker does, by the machine
that the simulator runs too (``emulator.broker``); none keeps logs or serves clients. Real brokers
would spend the machine on creating logs, and the measurement of a controller would be one of them.
The same fleet serves our controller and Kafka's.
"""
