"""Our attacks in other people's tools, and theirs to compare with; each package is imported when it is used.

Their models as our classifiers are in `adapters`.
"""
