"""Step rules: from a boundary point and a direction to the next search line."""
