"""Benchmark on a folder of tasks, each from idea to paper, with every step judged; resumable.

docs/benchmarks.md explains how to interpret the table.
"""
