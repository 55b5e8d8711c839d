"""The report of a run: one HTML file that needs nothing from outside, a summary, the Parquet."""
