"""`staffel up`: Valkey, the workers and Flower as one program in one terminal.

alone      the lock of the state directory, and Flower's port
house      what runs, from the first start to the last stop
program    which programs those are, with their arguments and their environment
child      one of them as a process; tether.py lets it die with us
redis      somebody's own Redis, or the embedded Valkey
log        the one log that a person reads
"""

from __future__ import annotations

from staffel.supervisor.alone import NotFree, alone, flower_port
from staffel.supervisor.house import House, Plan

__all__ = ["House", "NotFree", "Plan", "alone", "flower_port"]
