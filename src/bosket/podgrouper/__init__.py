"""The pod grouper."""
