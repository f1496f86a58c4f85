"""Work on one node from its decision to its verdict, with all intermediate checks."""
