"""Kafka's tables of configs, and indexes of the image."""
