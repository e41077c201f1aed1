"""The embedded inference engine: generation by the very module that is trained."""
