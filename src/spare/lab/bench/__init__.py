"""Benchmarks behind `spare bench`, a module for each: `run` (numbers out) and `show` (tables for people)."""
