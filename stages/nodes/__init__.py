"""One node from its decision to its verdict, and what is looked at on the way."""
