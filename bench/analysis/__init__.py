"""The trace analysed by PySpark: pure ``DataFrame -> DataFrame`` functions and one job.

Nothing here opens a file, uses the RDD API or a UDF: the same code runs in one process, on a
cluster, and over Spark Connect. Tables and columns are those of ``emulator.trace.rows``; times
come out in milliseconds, and every quantile with its accuracy and the number of samples behind it.
"""
