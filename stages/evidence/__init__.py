"""Checks of the numbers that the paper rests on: probes, test scores, resampling, and reproduction."""
