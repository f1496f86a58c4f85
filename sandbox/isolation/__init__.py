"""Isolation of untrusted code: what it can see, change and consume (docs/sandbox.md).

bubblewrap         what a command sees, as arguments of bubblewrap
probe              whether bubblewrap works on this machine; if not, why, and how to fix it
interpreter        what an interpreter needs to run, its packages, and its speed
mounts             files and environment variables that a kernel sees
command_isolation  one command without files, for a parser of untrusted input
sandboxed_process  start, exit code, interrupt and end of a process in a sandbox
processes          the processes of a kernel and their memory
limits             limits on memory, tasks and disk, over all processes of a kernel
scratch            the folder for communication with a kernel
"""
