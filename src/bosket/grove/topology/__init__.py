"""ClusterTopologyBindings: their levels become schedulers' topologies, and the result becomes their status.

binding_status   what a binding's status says of the topologies; pure
controller       makes KAI's Topology what a binding says, and writes both results; for Grove's operator
"""
