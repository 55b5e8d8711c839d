"""These tests take half an hour of a core: `make cost` runs them, `make test` does not."""

import os

collect_ignore_glob = [] if os.environ.get("COST") else ["test_*.py"]
