"""``kraft-bridge format``: what is asked of the cluster, decided by it, and said."""
