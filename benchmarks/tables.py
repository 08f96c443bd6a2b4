"""Reading a large table, by pyarrow and by Python's csv module: time and memory.

python -m benchmarks.tables
"""

import subprocess
import sys

ROWS, COLUMNS = 200_000, 17
MEASURED = """
import random, resource, sys, time
from nescio.data import _table_files
random.seed(0)
rows, columns = int(sys.argv[1]), int(sys.argv[2])
lines = [",".join(f"c{column}" for column in range(columns))]
for _ in range(rows):
    lines.append(",".join(str(random.randrange(1000)) for _ in range(columns)))
content = "\\n".join(lines).encode()
del lines
if sys.argv[3] == "csv module":
    _table_files._read_plain_csv = lambda *_: None
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
table = _table_files.read_table(content, "a.csv", ".csv")
seconds = time.perf_counter() - start
more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(f"{sys.argv[3]:12} {seconds:5.1f} s  {more:5.0f} MB more, of a file of {len(content) / 1e6:.0f} MB")
"""


def main() -> None:
    """Measure each reader in a process of its own."""
    for reader in ("pyarrow", "csv module"):
        subprocess.run([sys.executable, "-c", MEASURED, str(ROWS), str(COLUMNS), reader], check=True)


if __name__ == "__main__":
    main()
