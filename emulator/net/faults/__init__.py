"""Scripted faults: what a client does when a request is refused, late, cut off or not answered.

For tests of clients. A script says which requests it strikes and how; it is off unless asked for
(``kraftbridge.faults.enable``, or :class:`emulator.testing.Cluster`). See docs/testing.md.
"""
