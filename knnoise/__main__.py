"""`python -m knnoise`: the command line."""

from flows.cli import process

if __name__ == "__main__":
    process()
