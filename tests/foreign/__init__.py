"""Controllers that others wrote, at work on the embedded API server.

`programs` starts them, `work` gives them work and waits until it is done, `run` does both and says what went wrong.
`python -m benchmarks foreign` runs them for as long as one likes, `tests/e2e/test_foreign.py` for a minute.
"""
