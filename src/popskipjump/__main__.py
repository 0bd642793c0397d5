"""`python -m popskipjump` is `psj`."""

from popskipjump.cli import main

if __name__ == "__main__":
    main()
