"""The same measuring and the same lines as latchkey_bench, for peers written in Python."""

import json
import statistics
import time

BATCH = 0.02  # seconds
BATCHES = 60
WARM_UP = 0.3


def measure(name, what, work):
    """Prints what `work` costs in processor time of the whole process."""
    repetitions, start = 0, time.perf_counter()
    while time.perf_counter() - start < WARM_UP:
        work()
        repetitions += 1
    per_batch = max(1, int(repetitions * BATCH / WARM_UP))
    batches = []
    for _ in range(BATCHES):
        start = time.process_time()
        for _ in range(per_batch):
            work()
        batches.append((time.process_time() - start) * 1e6 / per_batch)
    figure = {
        "id": name,
        "what": what,
        "clock": "processor",
        "median_us": statistics.median(batches),
        "fastest_us": min(batches),
        "count": per_batch * BATCHES,
    }
    print(json.dumps(figure), flush=True)
