"""Walls around code that nobody trusts: what it sees, what it may change, what it may use up (docs/sandbox.md).

    walls         what a command sees, as arguments of bubblewrap
    probe         whether bubblewrap works here, and what `sandbox.isolation` makes of that
    mending       why it does not work, and what to do about it
    interpreter   what an interpreter needs to run, and which packages it has
    masks         files with labels that lie within what is seen
    provisioner   how Jupyter starts, interrupts and ends a kernel behind walls
    watchdog      limits of memory, tasks and disk, for all processes of a kernel together
"""

from sandbox.isolation.walls import Walls, wrap

__all__ = ["Walls", "wrap"]
