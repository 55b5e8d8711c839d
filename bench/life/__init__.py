"""The whole life of a migration on real servers, phase by phase, with a book kept by clients."""
