"""Tests of the offline researcher."""
