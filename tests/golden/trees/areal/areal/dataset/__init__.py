DATASETS: dict[str, str] = {
    "plain_rows": "areal.dataset.plain_rows",
}
