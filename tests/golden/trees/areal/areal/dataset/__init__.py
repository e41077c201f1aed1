DATASETS: dict[str, str] = {
    "plain_pairs": "areal.dataset.plain_pairs",
    "plain_rows": "areal.dataset.plain_rows",
}
