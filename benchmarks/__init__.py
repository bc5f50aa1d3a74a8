"""Measurements: `python -m benchmarks [NAME…]`, or `make bench`."""
