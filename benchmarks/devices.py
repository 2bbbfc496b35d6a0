"""One fit on several devices: what one device needs for a share of the networks, and what threads cost.

Networks are independent, so a fit of M networks on n devices takes as long as its slowest device: about as long as
M / n networks on one. This is measured on one device, for n = 1, 2, 4 and 8. Threads of one process share Python's
lock, which could make devices wait for the host: the same device is therefore given to 1, 2, 4 and 8 threads, with
networks so small that the device is idle most of the time. Finally, two threads must give the bits of one.

    python benchmarks/devices.py --device cuda:0 --out results       # 60 s on a large GPU
    python benchmarks/devices.py --device cpu --networks 8 --rows 600 --epochs 2 --out /tmp/devices
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import knotwork as kw

SHARES = (1, 2, 4, 8)


def make_table(n_rows):
    """Return a table of 14 columns and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 14)).astype(np.float32)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows)


def fit(table, device, n_networks, *, widths, epochs, reproducible=False):
    """Return a fitted model, and the seconds that it took."""
    training = kw.TrainingConfig(max_epochs=epochs, patience=None, batch_size=512, reproducible=reproducible)
    model = kw.TabularRegressor(
        "PLE-Q@30",
        kw.nn.MLPConfig(widths=widths),
        n_members=n_networks,
        training=training,
        device=device,
        random_state=0,
    )
    started = time.perf_counter()
    model.fit(*table)
    return model, time.perf_counter() - started


def measure(arguments):
    """Yield the results so far, after each of three parts."""
    table, device, most = make_table(arguments.rows), arguments.device, arguments.networks
    wide, small = {"widths": (256, 256)}, {"widths": (32,)}
    fit(table, device, 1, epochs=2, **wide)  # compiles kernels
    fit(table, device, 1, epochs=2, **small)
    results = {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "torch": torch.__version__,
        "knotwork": kw.__version__,
        "settings": vars(arguments),
    }
    times = {"epochs": arguments.epochs}
    results["share"] = {n: fit(table, device, max(most // n, 1), **times, **wide)[1] for n in SHARES}
    yield results
    one, two = (fit(table, each, 4, epochs=2, reproducible=True, **wide)[0] for each in (device, [device] * 2))
    results["equal_bits"] = bool(np.array_equal(one.predict(table[0]), two.predict(table[0])))
    yield results
    results["threads"] = {n: fit(table, [device] * n, n, **times, **small)[1] for n in SHARES}
    yield results


def main():
    """Measure, write devices.json after each part, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="the device that is measured")
    parser.add_argument("--networks", type=int, default=256, help="networks of the fit")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", default=".", help="folder for devices.json")
    arguments = parser.parse_args()
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    for results in measure(arguments):
        (folder / "devices.json").write_text(json.dumps(results, indent=1) + "\n")
    print("| devices | networks of each | seconds of a share | speed-up | seconds of n threads, one network each |")
    print("|---|---|---|---|---|")
    share, threads = results["share"], results["threads"]
    for n in SHARES:
        row = n, max(arguments.networks // n, 1), f"{share[n]:.2f}", f"{share[1] / share[n]:.1f}", f"{threads[n]:.2f}"
        print("|", " | ".join(map(str, row)), "|")
    print(f"two threads give the bits of one: {results['equal_bits']}")


if __name__ == "__main__":
    main()
