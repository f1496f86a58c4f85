"""Isolation of untrusted code: what it can see, change and consume (docs/sandbox.md).

bubblewrap         whether bubblewrap works on this machine (if not, why); what commands and kernels see
interpreter        what an interpreter needs to run, its packages, and its speed
processes          a process in a sandbox, from its start to its end; the processes of a kernel, their memory and limits
"""
