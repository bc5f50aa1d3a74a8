"""Writes: every creation, change and deletion of an object.

writer     decoded object → types → defaults → admission → rules → validation → stored
claims     who may write an object first after a lost race
deletion   graceful deletion, finalizers, propagation
patching   JSON patch, merge patch, strategic merge patch
"""
