"""Runs, tables and figures. The only part that draws."""
