"""A layout -> Python source -> functions: the engine, compiled when first used.

``decoder`` and ``encoder`` write the source, ``shapes`` the fast path for arrays of alike structs,
``runtime`` is what generated code calls. ``wire.reference`` reads the same layouts the slow,
obvious way; laws hold both equal.
"""
