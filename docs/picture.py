#!/usr/bin/env python3
"""Draws what a terminal showed as an SVG: the picture of a run in the README.

    script -q -e -c './dev demo' run.txt
    python3 docs/picture.py run.txt > docs/demo.svg

It knows what our programs write: SGR colours (16 colours, bold, dim), carriage return, "cursor up", and "erase to the
end" of line or screen. Anything else that begins with ESC ends it with an error, because the picture would be wrong.
"""

import re
import sys
from xml.sax.saxutils import escape

CELL, LINE, MARGIN, TOP = 8.4, 19, 18, 54  # in px; a cell is one character of 14 px
COLOURS = {
    30: "#484f58", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#c9d1d9",
    90: "#8b949e", 91: "#ffa198", 92: "#aff5b4", 93: "#f2cc60", 94: "#a5d6ff", 95: "#e2c5ff", 96: "#b3f0ff", 97: "#f0f6fc",
}
PLAIN = ("#c9d1d9", False, False)  # colour, bold, dim
TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|(\x1b)")


def screen(text):
    """The lines as they stood at the end: each a list of (character, style)."""
    lines, row, column, style = [[]], 0, 0, PLAIN
    for numbers, command, control, chars, stray in TOKEN.findall(text):
        if chars:
            line = lines[row]
            line.extend([(" ", PLAIN)] * (column - len(line)))
            for char in chars:
                line[column:column + 1] = [(char, style)]
                column += 1
        elif control == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append([])
        elif control == "\r":
            column = 0
        elif command == "A":
            row = max(0, row - int(numbers or 1))
        elif command in ("K", "J") and numbers in ("", "0"):
            del lines[row][column:]
            if command == "J":
                del lines[row + 1:]
        elif command == "m":
            style = restyled(style, [int(number or 0) for number in numbers.split(";")])
        else:
            sys.exit(f"picture.py: unknown sequence ESC{'' if stray else '[' + numbers + command}")
    return lines


def restyled(style, numbers):
    colour, bold, dim = style
    for number in numbers:
        if number == 0:
            colour, bold, dim = PLAIN
        elif number == 1:
            bold = True
        elif number == 2:
            dim = True
        elif number in COLOURS:
            colour = COLOURS[number]
        elif number == 39:
            colour = PLAIN[0]
        else:
            sys.exit(f"picture.py: unknown colour {number}")
    return colour, bold, dim


def runs(line):
    """Neighbours of one style as (column, text, style), blanks at both ends left out."""
    start = 0
    while start < len(line):
        end = start
        while end < len(line) and line[end][1] == line[start][1]:
            end += 1
        text = "".join(char for char, _ in line[start:end])
        if text.strip():
            yield start + len(text) - len(text.lstrip()), text.strip(), line[start][1]
        start = end


def main(path):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    # `script` frames what it recorded with two lines of its own.
    text = re.sub(r"\AScript started on [^\n]*\n", "", text)
    text = re.sub(r"\n*Script done on [^\n]*\n\Z", "", text)
    lines = screen(text)
    while lines and not lines[-1]:
        lines.pop()
    width = round(2 * MARGIN + CELL * max(len(line) for line in lines))
    height = TOP + LINE * len(lines) + MARGIN - LINE // 2
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
          'font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="14">')
    print(f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>')
    for index, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f")):
        print(f'<circle cx="{18 + 18 * index}" cy="18" r="5.5" fill="{colour}"/>')
    for number, line in enumerate(lines):
        for column, text, (colour, bold, dim) in runs(line):
            looks = (' font-weight="bold"' if bold else "") + (' fill-opacity="0.65"' if dim else "")
            print(f'<text x="{MARGIN + CELL * column:.1f}" y="{TOP + LINE * number}" fill="{colour}"{looks} '
                  f'textLength="{CELL * len(text):.1f}" lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(text)}</text>')
    print("</svg>")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
