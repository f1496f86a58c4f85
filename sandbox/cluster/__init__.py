"""Run cells on several machines with Ray. Only `sandbox.cluster.ray_cluster` imports Ray."""
