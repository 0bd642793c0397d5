"""The commands of `psj`, one file each."""
