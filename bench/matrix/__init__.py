"""Real brokers of every bridge release, migrated step by step to our controller, and checked."""
