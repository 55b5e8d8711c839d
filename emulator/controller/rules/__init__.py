"""What may be done, and which records it takes: pure functions over the image."""
