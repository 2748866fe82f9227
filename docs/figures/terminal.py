#!/usr/bin/env python3
"""terminal.py LABEL: a screen as `tmux capture-pane -e -p` prints it, from standard input, as an SVG on standard output.

Bold, underlined, reversed and red text, which is what `bowline top` uses. A cell has the width that a monospaced font of 14
pixels has; `textLength` holds each run to it, whatever font there is."""
import re
import sys
from xml.sax.saxutils import escape

CELL, LINE, LEFT, TOP = 8.4, 18, 12.0, 12
INK, PAPER, RED = "#d7dae0", "#16181d", "#ff8a80"
PLAIN = {"bold": False, "underlined": False, "reversed": False, "red": False}
CODES = {1: ("bold", True), 22: ("bold", False), 4: ("underlined", True), 24: ("underlined", False),
         7: ("reversed", True), 27: ("reversed", False), 31: ("red", True), 91: ("red", True), 39: ("red", False)}


def runs(line, style):
    """The runs of a line as (column, text, style), and the style at its end."""
    found, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            for code in (int(code or 0) for code in part[2:-1].split(";")):
                style = dict(PLAIN) if code == 0 else {**style, **dict([CODES[code]] if code in CODES else [])}
        elif part:
            found.append((column, part, style))
            column += len(part)
    return found, style


def drawn(row, column, text, style):
    x, baseline = LEFT + column * CELL, TOP + row * LINE + 13.5
    ink = RED if style["red"] else INK
    out = []
    if style["reversed"]:
        out.append(f'<rect x="{x:.1f}" y="{TOP + row * LINE}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="{ink}"/>')
        ink = PAPER
    shown = text.rstrip() if not style["underlined"] else text
    gap = len(shown) - len(shown.lstrip())
    shown = shown.lstrip()
    if shown:
        more = (' font-weight="bold"' if style["bold"] else "") + (' text-decoration="underline"' if style["underlined"] else "")
        out.append(f'<text x="{x + gap * CELL:.1f}" y="{baseline}" textLength="{len(shown) * CELL:.1f}" fill="{ink}" '
                   f'xml:space="preserve"{more}>{escape(shown)}</text>')
    return out


lines = sys.stdin.read().rstrip("\n").split("\n")
style, out, columns = dict(PLAIN), [], 0
for row, line in enumerate(lines):
    found, style = runs(line, style)
    for column, text, look in found:
        columns = max(columns, column + len(text))
        out += drawn(row, column, text, look)
width, height = round(2 * LEFT + columns * CELL), 2 * TOP + len(lines) * LINE
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
      "font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" "
      f'font-size="14" role="img" aria-label="{escape(sys.argv[1])}">')
print('<rect width="100%" height="100%" rx="8" fill="#16181d"/>')
print("\n".join(out))
print("</svg>")
