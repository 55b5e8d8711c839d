"""Going back to ZooKeeper mode: what stands in the way, the steps, the effects in their order.

Pure. ``situation.py`` holds what was looked at, ``phases.py`` says where the cluster stands,
``checks.py`` and ``losses.py`` what stands in the way, ``steps.py`` what is to be done by whom and
what it costs. ``release.py`` has the multi that gives ``/controller`` back, ``missing.py`` what the
logs hold and ZooKeeper does not, ``course.py`` the order of the effects: each run looks again and
begins where the last one was cut off.
"""
