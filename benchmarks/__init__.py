"""Measurements that are too long for the tests: each module prints one JSON object, ratios within one run."""
