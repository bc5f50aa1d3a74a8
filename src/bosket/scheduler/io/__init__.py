"""Input and output of the scheduler: watch events into the live state, decisions out as objects."""
