"""The versioned store in memory.

entry           one version of one object; one write as an event
resource_store  all objects of one resource, their history and watchers
store           all resources under one counter of versions
"""
