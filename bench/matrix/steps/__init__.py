"""What a migration is put through, in order: one row of the table each."""
