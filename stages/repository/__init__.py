"""A user's repository: its result made again, its parts taken out one by one."""
