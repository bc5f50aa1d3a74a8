"""What happens when `decide` raises: culprits are found and left out, and evidence is kept."""
