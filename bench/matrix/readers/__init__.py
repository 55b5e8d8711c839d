"""Kafka's own tools and three client libraries on our controller and on Kafka's, compared."""
