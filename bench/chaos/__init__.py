"""Real servers under random faults: what clients were answered is compared with the stores."""
