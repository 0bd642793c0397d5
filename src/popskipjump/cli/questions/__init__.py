"""Commands that answer a question about a classifier, one file each."""
