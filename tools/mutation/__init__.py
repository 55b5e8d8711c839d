"""A sampled mutation score of the machines: ``python -m tools.mutation``."""
