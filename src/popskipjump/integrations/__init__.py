"""Other people's tools; each is imported when it is used."""
