"""The demonstration: a real cluster migrated under load, judged, measured and reported."""
