"""Cells on many machines, with Ray as the engine. Ray is imported in `sandbox.cluster.ray` alone."""
