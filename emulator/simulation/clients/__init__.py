"""What asks a simulated cluster for changes, and what is hostile to it."""
