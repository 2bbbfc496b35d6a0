"""Write requirements.lock: the packages of constraints.txt with the SHA-256 of their files, for pip's --require-hashes.

Only files for the machines of the checks are listed: Linux on x86-64, Python 3.11 and 3.12. Torch is left out: where it
is installed from decides between its builds for CPU and GPU, which have one version and different files.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
LINK = re.compile(r"/([^/#\"]+)#sha256=([0-9a-f]{64})")
WHEEL = re.compile(r"-(?:py3|py2\.py3|cp31[12]|cp3\d+-abi3)[^/]*-(?:any|[^/]*linux[^/]*x86_64)\.whl$")
LEFT_OUT = ("torch",)


def pins(path: Path) -> list[tuple[str, str]]:
    """Return names and versions in a file of constraints."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [(name, version) for name, _, version in (line.partition("==") for line in lines) if version]


def file_hashes(name: str, version: str) -> list[str]:
    """Return the SHA-256 of every file of a release that can be installed on the machines of the checks."""
    with urlopen(f"{INDEX}/{re.sub(r'[-_.]+', '-', name).lower()}/", timeout=60) as answer:
        links = LINK.findall(answer.read().decode())
    stem = re.sub(r"[-_.]+", "[-_.]+", name)
    release = re.compile(rf"{stem}-{re.escape(version)}(?:\.tar\.gz|\.zip|-.*)$", re.IGNORECASE)
    files = [(file, digest) for file, digest in links if release.match(file)]
    return sorted({digest for file, digest in files if not file.endswith(".whl") or WHEEL.search(file)})


def main() -> None:
    """Write the file; a release without files is an error."""
    wanted = [pin for pin in pins(ROOT / "constraints.txt") if pin[0] not in LEFT_OUT]
    with ThreadPoolExecutor(8) as pool:
        hashes = list(pool.map(lambda pin: file_hashes(*pin), wanted))
    lines = ["# Written by .ci/lock.py from constraints.txt, for Linux on x86-64 and Python 3.11 and 3.12."]
    for (name, version), digests in zip(wanted, hashes, strict=True):
        if not digests:
            sys.exit(f"{INDEX} has no files of {name}=={version}")
        lines.append(" \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in digests)]))
    (ROOT / "requirements.lock").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
