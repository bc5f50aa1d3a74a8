"""The checks: pure functions from an `Installation` to findings, one module for each part of a cluster."""
