"""Pictures of what a terminal shows, drawn with the font that matplotlib brings."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

LINES, COLUMNS, SIZE = 46, 104, 15
COLOURS = {
    "green": "#98c379",
    "red": "#e06c75",
    "yellow": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
}


def draw(command: str, lines: list[Text], file: Path) -> None:
    """Lines as a dark terminal shows them, below the command that prints them."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    plain, bold = (
        ImageFont.truetype(str(fonts / name), SIZE) for name in ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf")
    )
    width, height = plain.getlength("m"), SIZE * 1.45
    shown = [Text(f"$ {command}", style="bold"), *lines][:LINES]
    picture = Image.new("RGB", (int(width * COLUMNS) + 40, int(height * len(shown)) + 36), "#21252b")
    pen = ImageDraw.Draw(picture)
    console = Console(width=COLUMNS, color_system="truecolor")
    for row, line in enumerate(shown):
        column = 0
        for segment in console.render(line, console.options.update(no_wrap=True, overflow="ellipsis")):
            style = segment.style
            name = style.color.name if style and style.color else ""
            colour = "#7f848e" if style and style.dim else COLOURS.get(name, "#dcdfe4")
            pen.text(
                (20 + column * width, 18 + row * height),
                segment.text.rstrip("\n"),
                fill=colour,
                font=bold if style and style.bold else plain,
            )
            column += len(segment.text)
    picture.quantize(64, kmeans=1).save(file, optimize=True)
