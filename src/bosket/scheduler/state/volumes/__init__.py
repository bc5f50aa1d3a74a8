"""Volumes, claims and storage classes of the live state."""
