"""`python -m labwright` is `scientist`."""

import sys

from labwright.agent.cli import main

sys.exit(main())
