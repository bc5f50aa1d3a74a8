"""The scheduler's two hands in Kubernetes: watch events into the live state, decisions out as objects."""
