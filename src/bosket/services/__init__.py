"""Services: each a role of the program `bosket run`; any set of them runs in one process."""
