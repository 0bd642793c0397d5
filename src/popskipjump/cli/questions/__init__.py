"""The commands that answer a question: one file each."""
