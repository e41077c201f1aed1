"""GptOss across processes."""
