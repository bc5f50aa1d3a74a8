"""Tools for tests of Bosket and of what is built on it: builders, clusters as lists of objects, faults."""
