"""The steps of a migration, in order: each is one row of the table."""
