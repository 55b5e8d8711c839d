"""``kraft-bridge elect-leaders``: preferred and unclean elections, by brokers or by ZooKeeper."""
