"""The parts that attacks are composed of: start, locate, direction, advance."""
