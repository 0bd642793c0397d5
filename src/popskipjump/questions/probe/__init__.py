"""Asking about noise: what is asked, how answers are weighed, and what follows from them."""
