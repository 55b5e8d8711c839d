"""Open-loop load on a cluster through its brokers, and the verification of the result.

``AdminLoad`` changes topics, partitions and configs by raw frames; ``ProduceLoad`` and
``ConsumeLoad`` are ordinary clients (aiokafka); ``verify`` reads back every acknowledged record.
All are asyncio and share one rule: the schedule is fixed beforehand and never moved by slowness.
"""
