"""What would hold up, spoil or surprise a migration, told before it begins. Pure and read-only.

``survey.py`` is what is known: a tree, its ACLs, properties files, measured round trips. A rule
looks at that and yields findings; rules stand in ``cluster.py``, ``topics.py``, ``contents.py``,
``settings.py`` and ``counts.py`` and register themselves under their code. ``report.py`` runs them.
"""
