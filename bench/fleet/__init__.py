"""Stand-in brokers: migrating ZooKeeper-mode brokers, as a controller sees them.

All brokers of a fleet live in one asyncio process. Each has its ephemeral znode, registers with the
controller, sends heartbeats and checks every control request as a real broker does, by the machine
of ``emulator.broker.stand_in``; none keeps logs or serves clients. Real
brokers would use the machine's time to create logs, and a measurement of the controller would
measure them instead. The same fleet serves our controller and Kafka's.
"""
