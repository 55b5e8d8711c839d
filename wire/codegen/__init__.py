"""A layout -> Python source -> functions: the codec, compiled when first used.

``decoder`` and ``encoder`` write the source, ``shapes`` the fast path for arrays of alike structs,
``runtime`` is what generated code calls. ``wire.reference`` interprets the same layouts, slowly and
directly; property tests check that both agree.
"""
