"""`python -m popskipjump` is `psj`."""

import sys


def main() -> None:
    """Run the command; Ctrl-C while it is still being imported ends it without a traceback."""
    try:
        from popskipjump.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was done.\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
