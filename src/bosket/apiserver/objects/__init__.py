"""What the objects of every kind have in common.

kind              a served kind, its versions, and the registry of all kinds
metadata          what the server writes into metadata, and what clients may write
types             type checks of built-in kinds, by Struct
field_validation  unknown fields of built-in kinds, and duplicate keys
strategic         strategic merge patches
status_condition  conditions in the status of objects
"""
