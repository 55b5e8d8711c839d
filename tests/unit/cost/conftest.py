"""`make cost` runs these tests, `make test` does not: three minutes of CPU, and six fail yet."""

import os

collect_ignore_glob = [] if os.environ.get("COST") else ["test_*.py"]
