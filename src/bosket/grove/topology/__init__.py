"""ClusterTopologyBindings: schedulers are told of the levels that one binds to labels, and it is told what came of it.

kai_topology     what KAI's Topology should be, and how one that somebody else keeps differs; pure
binding_status   what a binding's status says of that; pure
controller       carries both out, for Grove's operator
"""
