"""Benchmarks behind `spare bench`: each file has `run` (numbers out) and `show` (tables for people)."""
