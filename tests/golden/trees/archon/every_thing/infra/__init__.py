"""EveryThing across processes."""
