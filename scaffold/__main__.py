"""Lets `python -m scaffold` stand for the console command."""

from scaffold.cli import main

main()
