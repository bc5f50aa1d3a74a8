"""Field ownership (`metadata.managedFields`) for server-side apply.

shape     which parts of an object can be owned separately: fields of maps, elements of keyed lists
fieldset  sets of owned fields, and their form on the wire
merge     an object after an apply patch
managed   managers and what they own: conflicts, and how ownership moves with other writes
"""
