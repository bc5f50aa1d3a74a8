"""Custom resources: kinds that are taught to the server while it runs, by CustomResourceDefinitions.

definition.py   a definition: what it must look like, and the kind it stands for
strategy.py     how objects of such a kind are checked and completed
schema.py       a structural schema as a tree: pruning, defaults
check.py        the schema's constraints (the one module that knows jsonschema-rs)
rules.py        CEL rules and where in the tree they hold
cel.py          CEL expressions (the one module that knows the cel package)
jsonpath.py     paths of printer columns
"""
