"""Lets `python -m scaffold` stand for the console command."""

import os
import sys

# `python -m` looks for modules in the working folder first. Unless that is where the tool itself
# is, a target's click.py would be run in the place of ours.
try:
    here = os.getcwd()
except OSError:  # the working folder was deleted, and there is nothing to look in
    here = ""
if sys.path[0] == here != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
    del sys.path[0]

from scaffold.cli.main import main

main()
