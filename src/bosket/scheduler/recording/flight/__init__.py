"""The flight recorder: every cycle's input and decisions in bounded files, written while the scheduler runs."""
