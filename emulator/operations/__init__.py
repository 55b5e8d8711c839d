"""What an operator asks before a migration, and before the way back from one."""
