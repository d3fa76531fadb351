"""``python -m kernellab``."""

from kernellab.cli import main

main()
