"""ClusterTopologyBindings: their levels become schedulers' topologies, and the result becomes their status.

kai_topology     what KAI's Topology should be, and how one that somebody else keeps differs; pure
binding_status   what a binding's status says of that; pure
controller       carries both out, for Grove's operator
"""
