"""The isolation of code that nobody trusts: what it sees, what it may change, what it may use up (docs/sandbox.md).

bubblewrap    what a command sees, as arguments of bubblewrap
probe         whether bubblewrap works here; if not, why, and what to do about it
interpreter   what an interpreter needs to run, which packages it has, and how fast it computes
mounts        what a kernel sees of this machine: files, and environment variables
provisioner   how Jupyter starts, interrupts and ends an isolated kernel
processes     the processes of a kernel, and what they hold
limits        limits of memory, tasks and disk, for all processes of a kernel together
scratch       the folder through which we talk to a kernel
"""
