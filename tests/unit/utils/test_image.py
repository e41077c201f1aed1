from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from areal.utils.image import image2base64, process_vision_prompt, to_jpeg_bytes, to_pil
from tests.fakes import TinyVisionProcessor


def picture(size: tuple[int, int] = (42, 28), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size)


def png() -> bytes:
    buffer = io.BytesIO()
    picture().save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_pictures_of_any_mode_become_rgb(mode: str) -> None:
    assert to_pil(picture(mode=mode)).mode == "RGB"


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode: str) -> None:
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((1, 0), (0, 0, 0, 255))
    buffer = io.BytesIO()
    clear.convert(mode).save(buffer, format="PNG")
    shown = to_pil(buffer.getvalue())
    assert [shown.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (0, 0, 0)]


def test_a_photograph_stands_upright() -> None:
    taken = picture()
    exif = taken.getexif()
    exif[0x0112] = 6  # orientation: turn it by a quarter
    buffer = io.BytesIO()
    taken.save(buffer, format="JPEG", exif=exif)
    assert to_pil(buffer.getvalue()).size == (28, 42)


def test_bytes_and_parquet_cells_are_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    cells: list[Any] = [
        png(),
        bytearray(png()),
        {"bytes": png(), "path": None},
        {"bytes": None, "path": str(tmp_path / "a.png")},
        str(tmp_path / "a.png"),
        tmp_path / "a.png",
    ]
    for cell in cells:
        assert to_pil(cell).size == (42, 28)


@pytest.mark.parametrize("image", [3, None, ["a.png"]])
def test_what_is_no_picture_is_refused(image: Any) -> None:
    with pytest.raises(TypeError, match="no image"):
        to_pil(image)


def test_bytes_that_are_no_picture_are_refused() -> None:
    with pytest.raises(OSError, match="cannot identify"):
        to_pil(b"not a picture")


@pytest.mark.parametrize(
    ("size", "max_pixels", "expected"),
    [
        ((100, 50), None, (100, 50)),
        ((100, 50), 5000, (100, 50)),
        ((200, 100), 5000, (100, 50)),
        ((3000, 1), 100, (547, 1)),
    ],
)
def test_jpegs_are_shrunk_to_an_area(
    size: tuple[int, int], max_pixels: int | None, expected: tuple[int, int]
) -> None:
    encoded = Image.open(io.BytesIO(to_jpeg_bytes(picture(size), max_pixels=max_pixels)))
    assert encoded.format == "JPEG"
    assert encoded.size == expected


def test_base64_keeps_bytes_and_encodes_pictures_without_loss() -> None:
    data = png()
    as_bytes, as_png = image2base64([data, picture()])
    assert base64.b64decode(as_bytes) == data
    assert Image.open(io.BytesIO(base64.b64decode(as_png))).format == "PNG"
    assert image2base64(data) == [as_bytes]
    assert image2base64([]) == []


def test_a_processor_without_token_types_gets_them_from_its_image_token() -> None:
    text = "user: \x1aHow many?"
    told = process_vision_prompt(TinyVisionProcessor(), text, [png()])
    derived = process_vision_prompt(TinyVisionProcessor(has_token_types=False), text, [png()])
    assert told.mm_token_type_ids == derived.mm_token_type_ids
    assert sum(told.mm_token_type_ids) == 6
    assert told.input_ids == derived.input_ids
    assert told.features.keys() == {"pixel_values", "image_grid_thw"}
