"""Starts: proposed adversarial points, and the first boundary point of a walk."""
