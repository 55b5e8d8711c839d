"""A simulated cluster: the controller under a virtual clock, with models around it."""
