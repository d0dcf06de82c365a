"""The chaos tool itself: its schedule, its doors, its audit, and the real thing in small."""
