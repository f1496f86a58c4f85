"""Work on one node, from its decision to its verdict, and the checks on the way."""
