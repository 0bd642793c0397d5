"""Persistent runs that can be resumed: stored answers are read from the run's folder, missing ones are queried."""
