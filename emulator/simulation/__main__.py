"""``python -m emulator.simulation --seed N``."""

import sys

from emulator.simulation.run import main

sys.exit(main())
