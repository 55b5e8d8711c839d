"""Mocks of Kafka by others: programs that print their addresses and last as long as their input."""
