"""Shell completion: what may come next on a command line, and the scripts with which shells ask for it."""
