"""From a topic to ideas that were looked up, held against the machine and against each other; then to a proposal."""
