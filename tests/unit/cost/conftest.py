"""These tests take three minutes of CPU, and six of them fail yet: `make cost` runs them, `make test` does not."""

import os

collect_ignore_glob = [] if os.environ.get("COST") else ["test_*.py"]
