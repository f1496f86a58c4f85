"""Isolation of untrusted code: what it can see, change and consume (docs/sandbox.md).

bubblewrap         what a command sees, as arguments of bubblewrap
probe              whether bubblewrap works on this machine (if not, why); one command without files in a sandbox
interpreter        what an interpreter needs to run, its packages, and its speed
mounts             files and environment variables that a kernel sees
processes          a process in a sandbox, from its start to its end; the processes of a kernel and their memory
limits             limits on memory, tasks and disk, over all processes of a kernel
scratch            the folder for communication with a kernel
"""
