"""What earlier versions left on disks: a folder for each, which `make.py` has written."""

import pathlib

VERSIONS = sorted(path for path in pathlib.Path(__file__).parent.glob("v*_*_*") if path.is_dir())
