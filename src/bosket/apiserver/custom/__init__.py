"""Custom resources: kinds that CustomResourceDefinitions add while the server runs.

definition        adds, changes and removes served kinds as definitions come and go
definition_rules  validation of a definition
structural        validation of its schemas as a whole; keywords: of single keywords
rule_errors       validation of its CEL rules; scope: the types that an expression refers to
naming            the names that a definition gets
strategy          how objects of a custom kind are checked and completed
schema            a structural schema as a tree: pruning, defaults, correlation of two states of an object
check             the schema's constraints (the one module that knows jsonschema-rs), with formats
embedded          objects inside objects
rules             CEL rules and where in the tree they hold
conversion        one object in several versions
columns           printer columns and selectable fields; jsonpath: their paths
"""
