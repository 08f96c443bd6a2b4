"""Speed, measured as ratios: python -m benchmarks.NAME."""
