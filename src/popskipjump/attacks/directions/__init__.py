"""Gradient estimates: the normal of the decision boundary at a boundary point."""
