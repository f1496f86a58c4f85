"""Turn a topic into ideas that are compared with the literature, the machine and each other, and then into a
proposal."""
