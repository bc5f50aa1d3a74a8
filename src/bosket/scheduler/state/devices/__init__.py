"""Devices of the live state: DRA claims, extended resources, NUMA zones."""
