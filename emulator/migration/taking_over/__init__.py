"""From preconditions to dual write: claim, copy, recovery of what another writer left."""
