"""The trees hold tests of components that are installed nowhere."""

collect_ignore = ["trees"]
