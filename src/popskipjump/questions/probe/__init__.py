"""Measurement of noise: the queries, their statistics, and the findings."""
