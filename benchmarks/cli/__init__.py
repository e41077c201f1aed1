"""What the command line costs: CPU time of whole processes, as a multiple of ``python -c pass``."""
