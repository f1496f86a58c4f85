"""Run cells on several machines with Ray. Only `sandbox.cluster.actor` imports Ray."""
