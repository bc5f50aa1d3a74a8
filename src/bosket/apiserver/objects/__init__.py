"""What the objects of every kind have in common.

kind              a served kind, its versions, and the registry of all kinds
metadata          what the server writes into metadata, and what clients may write
types             type checks of built-in kinds, by Struct
unknown           fields that a built-in kind doesn't have
strategic         strategic merge patches
duplicate         keys that a JSON body has twice
status_condition  conditions in the status of objects
"""
