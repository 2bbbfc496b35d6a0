"""Writing a file as a whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

__all__ = ["write_whole"]


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file; what was there before is replaced at once, and stays as it is if anything fails.

    Parameters
    ----------
    path : str or Path
        The file. Its folder is where it is written under another name first.
    content : bytes
        What is written.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{uuid4().hex[:12]}")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
