"""Kafka's own integration tests, whose controllers are processes of kraft-bridge."""
