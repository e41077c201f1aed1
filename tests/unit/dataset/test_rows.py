from __future__ import annotations

import pickle

import pytest

from areal.dataset.rows import RowDataset


def numbers(count: int = 5) -> RowDataset:
    return RowDataset([{"n": number, "text": str(number)} for number in range(count)])


def test_reads_like_a_sequence() -> None:
    rows = numbers()
    assert len(rows) == 5
    assert rows[1] == {"n": 1, "text": "1"}
    assert rows[-1]["n"] == 4
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows["n"] == [0, 1, 2, 3, 4]
    assert rows[1:4:2]["n"] == [1, 3]
    assert rows.column_names == ["n", "text"]
    assert RowDataset([]).column_names == []
    with pytest.raises(IndexError):
        rows[5]


def test_changing_a_row_leaves_the_dataset_alone() -> None:
    rows = numbers()
    rows[0]["n"] = 99
    assert rows[0]["n"] == 0


def test_select_filter_map_and_shuffle_make_new_datasets() -> None:
    rows = numbers()
    assert rows.select([3, 1])["n"] == [3, 1]
    assert rows.filter(lambda row: row["n"] % 2 == 0)["n"] == [0, 2, 4]
    assert rows.map(lambda row: {"double": 2 * row["n"]})[2] == {"double": 4}
    shuffled = rows.shuffle(seed=1)
    assert sorted(shuffled["n"]) == rows["n"]
    assert shuffled["n"] == rows.shuffle(seed=1)["n"] != rows["n"]
    assert rows["n"] == [0, 1, 2, 3, 4]


def test_a_transformation_runs_on_access_only() -> None:
    seen: list[int] = []

    def transform(row: dict[str, int]) -> dict[str, int]:
        seen.append(row["n"])
        return {"n": row["n"] + 10}

    rows = RowDataset(numbers(), transform)
    assert seen == []
    assert rows[2] == {"n": 12}
    assert rows.select([4])[0] == {"n": 14}
    assert seen == [2, 4]


def test_goes_to_worker_processes() -> None:
    assert pickle.loads(pickle.dumps(numbers()))["n"] == [0, 1, 2, 3, 4]
