"""Server-side apply: a manager says what it wants of an object, and owns what it said.

shape.py      which parts of an object can be owned apart: fields of maps, elements of keyed lists
fieldset.py   sets of owned places, and their form on the wire
merge.py      an object after somebody applied something
managed.py    who owns what: conflicts, and how ownership moves when others write
"""
