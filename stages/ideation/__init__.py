"""Turn a topic into ideas, compare them with the literature and the machine, and write proposals."""
