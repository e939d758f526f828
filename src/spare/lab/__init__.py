"""What SPARE is tested with: worlds, baselines, experiments, benchmarks, reports."""
