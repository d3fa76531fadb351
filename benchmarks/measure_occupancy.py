"""Ask a GPU's driver how many blocks of many kinds a multiprocessor holds, for `kl.occupancy` to agree with.

``python benchmarks/measure_occupancy.py tests/golden/h200_occupancy.csv`` writes a row for each launch;
`tests/instruments/test_occupancy.py` reads every table there. Needs a GPU and CuPy; nothing is launched.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import kernellab as kl
from kernellab.suites.driver_occupancy import FIELDS, ask, ours


def main(path: Path) -> None:
    rows = list(ask(kl.device("gpu")))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    same = sum(ours(row) == row["blocks"] for row in rows)
    print(f"{path}: {len(rows)} rows, {same} as kl.occupancy has them")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
