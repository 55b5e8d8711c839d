"""The analysis of a large trace: its wall time on one core and on two, and the memory it takes.

``python -m bench.at_size`` writes a synthetic trace, whose truth is known, and runs
``kraft-bridge analyze`` over it on each master. Rows are kept.
"""
