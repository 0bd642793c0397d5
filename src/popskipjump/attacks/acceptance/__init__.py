"""Rules that choose between a new border and the one before."""
