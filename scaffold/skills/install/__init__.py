"""Skills of others in a repository or a home: pinned, looked through, renewed and taken back."""
