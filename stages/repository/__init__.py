"""Studies of a user's repository: reproducing its result, ablating its components and answering questions."""
