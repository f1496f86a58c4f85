"""A small live run as a process of its own: `python -m tests.inspector.browser.live_run RUNS NAME`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.execution_cache import reusing_executions_between_runs
from tests.stages.test_whole_run import small_settings, start

if __name__ == "__main__":
    with reusing_executions_between_runs():
        sys.exit(
            start(Path(sys.argv[1]), sys.argv[2], small_settings(search__num_drafts=1, search__preliminary__nodes=2))
        )
