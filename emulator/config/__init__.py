"""Kafka's properties, read once at start: one file per subject; ``load`` combines them."""
