"""Kafka's properties, read once at start: one file a subject, ``load`` puts them together."""
