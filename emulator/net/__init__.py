"""Accepted connections, outbound channels, responses and their tickets."""
