"""How fast messages are decoded and encoded, beside construct, Kafka's Java classes and kio.

``python -m bench.codec`` prints one table from one run, with the load of the machine, and whether
the project's targets hold. Needs the jars and a Java; kio is a development dependency.
"""
