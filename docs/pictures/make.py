"""Makes the README's pictures from a finished run: `python docs/pictures/make.py RUN` (needs poppler-utils).

`tree.png` is what `scientist tree RUN` prints, drawn with the font that matplotlib brings; `paper.png` is two pages of
the run's paper side by side.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

from inspector.render import tree_lines
from inspector.tree import tree_of
from record.log import read_state

HERE = Path(__file__).parent
LINES, COLUMNS, SIZE = 34, 104, 15
PAGES = (1, 3)
COLOURS = {"green": "#98c379", "red": "#e06c75", "yellow": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd",
           "cyan": "#56b6c2"}


def draw_tree(run: Path) -> None:
    """The tree as a picture of a dark terminal."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    plain, bold = (ImageFont.truetype(str(fonts / name), SIZE) for name in ("DejaVuSansMono.ttf",
                                                                           "DejaVuSansMono-Bold.ttf"))
    width, height = plain.getlength("m"), SIZE * 1.45
    lines = [Text(f"$ scientist tree {run.name}", style="bold"), *tree_lines(tree_of(read_state(run)))][:LINES]
    picture = Image.new("RGB", (int(width * COLUMNS) + 40, int(height * len(lines)) + 36), "#21252b")
    pen = ImageDraw.Draw(picture)
    console = Console(width=COLUMNS, color_system="truecolor")
    for row, line in enumerate(lines):
        column = 0
        for segment in console.render(line, console.options.update(no_wrap=True, overflow="ellipsis")):
            style = segment.style
            name = style.color.name if style and style.color else ""
            dim = bool(style and style.dim)
            colour = "#7f848e" if dim else COLOURS.get(name, "#dcdfe4")
            pen.text((20 + column * width, 18 + row * height), segment.text.rstrip("\n"), fill=colour,
                     font=bold if style and style.bold else plain)
            column += len(segment.text)
    picture.quantize(64).save(HERE / "tree.png", optimize=True)


def draw_paper(run: Path) -> None:
    """Two pages of the paper side by side."""
    with tempfile.TemporaryDirectory() as folder:
        pages: list[Image.Image] = []
        for page in PAGES:
            target = Path(folder) / f"page{page}"
            subprocess.run(["pdftoppm", "-r", "80", "-f", str(page), "-l", str(page), "-png", "-singlefile",
                            str(run / "paper" / "paper.pdf"), str(target)], check=True, timeout=60)
            pages.append(Image.open(target.with_suffix(".png")).convert("RGB"))
    width, height = pages[0].size
    picture = Image.new("RGB", (2 * width + 48, height + 32), "#d0d4da")
    for number, page in enumerate(pages):
        picture.paste(page, (16 + number * (width + 16), 16))
    picture.quantize(64).save(HERE / "paper.png", optimize=True)


if __name__ == "__main__":
    draw_tree(Path(sys.argv[1]))
    draw_paper(Path(sys.argv[1]))
