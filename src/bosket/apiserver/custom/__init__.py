"""Custom resources: kinds that are taught to the server while it runs, by CustomResourceDefinitions.

definition.py        definitions, and the kinds that come, change and go with them
definition_rules.py  what a definition must look like
structural.py        … its schemas as a whole
keywords.py          … single keywords of them
rule_errors.py       … their CEL rules, with scope.py: what an expression speaks of
naming.py            which names a definition gets; name_review.py: again, when names become free
strategy.py          how objects of such a kind are checked and completed
schema.py            a structural schema as a tree: pruning, defaults, what belongs together in two states of an object
check.py             the schema's constraints (the one module that knows jsonschema-rs), with formats.py
embedded.py          objects inside objects
rules.py             CEL rules and where in the tree they hold
conversion.py        the same object in several versions
columns.py           printer columns and selectable fields; jsonpath.py: their paths
"""
