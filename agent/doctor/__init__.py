"""Is this machine, and a model, fit for a run? Small probes, each bounded in time, each one finding.

Nothing is changed, nothing is installed, and nothing is sent anywhere unless a model is named. A fault is what a run
cannot do its work with; a warning is what it does worse with.

Not guaranteed: that a run ends well. A probe looks at one moment, and a minute later a disk may be full or a provider
away.
"""
