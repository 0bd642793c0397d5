"""The experiments themselves: one object for each table and figure of the paper."""
