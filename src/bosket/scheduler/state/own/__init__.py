"""The scheduler's own decisions: those that the API server doesn't show yet, and those that bind later cycles."""
