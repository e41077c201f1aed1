"""Configurations of Trinity-RFT on our engines: the commands ``areal trinity``."""
