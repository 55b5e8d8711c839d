"""Conversations: accepted connections, outbound ones, answers and the tickets they carry."""
