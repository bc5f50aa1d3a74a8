"""OpenAPI documents.

document   answers /openapi; version 3 by group and version, version 2 for all
paths      the operations on a kind
schema     schemas of Structs and of custom resources
protobuf   version 2 in protobuf
"""
