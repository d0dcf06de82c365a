"""What a failed call is worth: its reason, the class of its fault, and what follows from each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from worker.failover.attempt import Reason


class FaultClass(StrEnum):
    """What kind of fault a reply is; `CONSEQUENCES` says what follows from each."""

    CALLER = "caller"
    """The request is wrong in itself; every other stage would say so too."""
    NO_FIT = "no_fit"
    """This stage cannot serve this request; another one may."""
    REJECTED = "rejected"
    """The stage does not take a field of this request; without it, it might."""
    THROTTLED = "throttled"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    """Will not get better without a person, a new hour or a new month."""
    BAD_OUTPUT = "bad_output"
    LOCAL = "local"
    """Our own fault; the stage has done nothing."""


class Counts(StrEnum):
    """How a fault counts against the stage's breaker."""

    NOTHING = "nothing"
    OUTAGE = "outage"
    THROTTLE = "throttle"
    """Closed to calls until the instant that the host named, or for a back-off."""
    PERMANENT = "permanent"
    """Open at the first sight, for `permanent_for` or until the instant that the host named."""
    QUALITY = "quality"
    """What came is no answer, but the stage is there: a success as far as its breaker is concerned."""


@dataclass(frozen=True, slots=True)
class Consequences:
    """What follows: whether the walk goes on, how it counts, and whether a person must hear of it at once."""

    goes_on: bool = True
    counts: Counts = Counts.NOTHING
    loud: bool = False


CONSEQUENCES: Mapping[FaultClass, Consequences] = MappingProxyType(
    {
        FaultClass.CALLER: Consequences(goes_on=False),
        FaultClass.NO_FIT: Consequences(),
        FaultClass.REJECTED: Consequences(loud=True),
        FaultClass.THROTTLED: Consequences(counts=Counts.THROTTLE),
        FaultClass.TRANSIENT: Consequences(counts=Counts.OUTAGE),
        FaultClass.PERMANENT: Consequences(counts=Counts.PERMANENT, loud=True),
        FaultClass.BAD_OUTPUT: Consequences(counts=Counts.QUALITY),
        FaultClass.LOCAL: Consequences(),
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a call brought no answer, and what kind of fault that is."""

    reason: Reason
    fault_class: FaultClass

    @property
    def consequences(self) -> Consequences:
        return CONSEQUENCES[self.fault_class]
