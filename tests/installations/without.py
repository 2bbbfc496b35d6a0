"""Runs a script as if some packages were not installed: python without.py torch,pandas script.py."""

import runpy
import sys
from importlib.machinery import PathFinder


class Without:
    """The finder of installed packages, blind to some of them."""

    def __init__(self, names):
        self.names = frozenset(names)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.names else PathFinder.find_spec(name, path, target)


if __name__ == "__main__":
    sys.meta_path[sys.meta_path.index(PathFinder)] = Without(sys.argv[1].split(","))
    sys.argv[:2] = []
    runpy.run_path(sys.argv[0], run_name="__main__")
