"""``python -m kernellab.cli``."""

from kernellab.cli import main

main()
