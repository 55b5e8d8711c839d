"""Findings about a cluster before its migration: blockers, warnings, information.

Pure and read-only.

``survey.py`` holds the input: a tree, its ACLs, properties files, measured round trips. A rule
reads it and yields findings; rules are in ``cluster.py``, ``topics.py``, ``contents.py``,
``settings.py`` and ``counts.py`` and register themselves under their code. ``report.py`` runs them.
"""
