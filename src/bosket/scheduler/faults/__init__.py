"""What happens when `decide` raises: culprits are found and left out, and a snapshot is kept as evidence."""
