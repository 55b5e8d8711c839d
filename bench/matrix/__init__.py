"""Real brokers of every bridge release, migrated step by step onto our controller, and judged."""
