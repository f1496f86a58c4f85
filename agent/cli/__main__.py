"""`python -m agent.cli` is `scientist`."""

import sys

from agent.cli import main

sys.exit(main())
