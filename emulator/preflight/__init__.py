"""Findings about a cluster before its migration: blockers, warnings, information.

Pure and read-only.

``survey.py`` is what is known: a tree, its ACLs, properties files, measured round trips. A rule
looks at that and yields findings; rules stand in ``cluster.py``, ``topics.py``, ``contents.py``,
``settings.py`` and ``counts.py`` and register themselves under their code. ``report.py`` runs them.
"""
