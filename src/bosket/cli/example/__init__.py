"""`bosket example`: workloads of kinds whose operators aren't there, with what these would make of them."""
