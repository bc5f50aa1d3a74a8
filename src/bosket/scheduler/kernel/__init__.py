"""The numpy-dense part: fit and score over all nodes at once."""
