"""Processes that compute rewards, and the dispatcher that feeds them."""
