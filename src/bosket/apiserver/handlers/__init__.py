"""Handlers of requests about resources: verbs on objects, and subresources.

rest             create, get, list, watch, update, patch, delete
subresource      the table of subresources: status, scale, binding, eviction, token
apply_patch      server-side apply
scale, pod_binding, eviction, token_request, reviews    one subresource or review each
reading          one object, a list in pages, a watch
selection        label and field selectors of a list or a watch
representation   the form of a response: object, table, metadata only
watch            the stream of one watch
"""
