"""Findings about a cluster before its migration: blockers, warnings, information.

Pure and read-only.

``survey.py`` holds the input: a tree with its ACLs, the nodes' files as they are and as they will
be (``node_file.py``), the controllers' folders (``controller_folder.py``), measured round trips. A
rule reads it and yields findings. Rules register themselves under their code, with the incident
that they prevent; ``report.py`` names their modules and runs them. ``stage.py`` says where a
migration stands already.
"""
