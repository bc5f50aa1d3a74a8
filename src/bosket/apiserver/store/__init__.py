"""The versioned store in memory.

entry           one version of one object
resource_store  all objects of one resource, their history and watchers; one write as an event
store           all resources under one counter of versions
"""
