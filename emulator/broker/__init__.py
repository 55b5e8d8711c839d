"""A broker: what it knows of the cluster, and how it answers clients and its controller."""
