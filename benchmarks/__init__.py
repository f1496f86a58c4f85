"""Measurements that take too long for the tests: each module prints one JSON object, with ratios within one run."""
