"""Answers made of snapshots and decisions: for `replay`, `nodes`, `topology` and the conformance suite."""
