"""What a caller can meet; the tree is drawn in `staffel_wire.errors`, where a worker can reach it too."""

from staffel_wire.errors import Cancelled, Exhausted, Expired, Invalid, Refused, StaffelError, Unavailable

__all__ = ["Cancelled", "Exhausted", "Expired", "Invalid", "Refused", "StaffelError", "Unavailable"]
