"""The built-in kinds: a module for each family of kinds with its defaults, rules and selectable fields.

catalogue  registers them all
builtin    what they have in common
"""
