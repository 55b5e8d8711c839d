"""A load in several processes on several machines: barrier tasks of a Spark cluster.

Spark starts all tasks at once or none, and its barrier gives them the begin that they share. A line
to the driver (one TCP connection for each task) carries the rest: progress, points of the plan at
which they wait for each other, the end that the user asks for, and the first failure.
"""
