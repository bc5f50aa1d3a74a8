"""What Kubernetes, KAI and Grove objects look like: msgspec Structs, one module or package per API group.

`object` has what all of them share, `table` lists the kinds, `keys` names labels and annotations, `quantity` and `time`
compute with what stands in them. The lowest layer: it imports nothing of the others and does no I/O.
"""
