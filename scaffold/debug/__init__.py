"""Watches distributed jobs: what each rank communicates, why one hangs, where two runs part."""
