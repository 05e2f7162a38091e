# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a real browser, headless Chromium: it renders, light and dark, wide and narrow.

``script/test full`` installs Chromium; elsewhere this runs where it is.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _report
from report_support import failed, plan

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIGHT, DARK = (255, 255, 255), (0x15, 0x17, 0x1B)
Pixel = tuple[int, int, int]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("LLMHOST_FULL"), reason="no Chromium here; script/test full installs it"
)


def chromium(folder: Path, *options: str) -> str:
    page = folder / "start report.html"
    page.write_text(_report.start_report(failed(), "gpu1", "chat", plan()), encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM or "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--user-data-dir=%s" % (folder / "profile"),
            *options,
            page.as_uri(),
        ],
        env={**os.environ, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "replace")


def pixels(path: Path) -> list[list[Pixel]]:
    """The rows of an 8-bit PNG without interlacing, which is what Chromium writes."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, channels = 8, b"", 0, 0
    while at < len(data):
        size, kind = struct.unpack("!I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, _height, depth, colour, _c, _f, interlaced = struct.unpack("!IIBBBBB", body)
            channels = {2: 3, 6: 4}[colour]
            assert (depth, interlaced) == (8, 0)
        elif kind == b"IDAT":
            packed += body
        at += size + 12
    raw, stride = zlib.decompress(packed), width * channels
    before, rows = bytearray(stride), []
    for start in range(0, len(raw), stride + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for index in range(stride if kind else 0):
            left = row[index - channels] if index >= channels else 0
            above = before[index]
            if kind == 4:
                corner = before[index - channels] if index >= channels else 0
                guess = left + above - corner
                left = min((left, above, corner), key=lambda one: abs(guess - one))
            row[index] = (row[index] + (left, left, above, (left + above) // 2, left)[kind]) & 255
        rows.append([(row[i], row[i + 1], row[i + 2]) for i in range(0, stride, channels)])
        before = row
    return rows


def test_the_page_becomes_a_document(tmp_path: Path) -> None:
    dom = chromium(tmp_path, "--dump-dom")
    assert "<h1>chat on gpu1</h1>" in dom
    assert dom.count("<svg") == 1 + 2 + 2  # timeline, two steps of memory, two cards
    assert dom.count('height="12"') == 5  # the bars of the timeline
    assert dom.rstrip().endswith("</html>")
    assert "</main></body>" in dom.replace("\n", "")


# The scheme as Chromium counts them. It draws no window narrower than 500 pixels.
@pytest.mark.parametrize(
    "width, scheme, paper", [(900, "1", LIGHT), (500, "0", DARK)], ids=["wide-light", "narrow-dark"]
)
def test_the_page_is_drawn(tmp_path: Path, width: int, scheme: str, paper: Pixel) -> None:
    shot = tmp_path / "shot.png"
    chromium(
        tmp_path,
        "--window-size=%d,1000" % width,
        "--blink-settings=preferredColorScheme=" + scheme,
        "--screenshot=%s" % shot,
    )
    rows = pixels(shot)
    assert len(rows[0]) == width
    assert rows[0][0] == paper
    # something is drawn, and nothing reaches over the right edge, where a phone would cut it off
    colours = {pixel for row in rows[::3] for pixel in row[::3]}
    assert len(colours) > 50
    assert {row[-3] for row in rows} == {paper}
    # the bars of the timeline are there in their colours
    hues = {phase: _hue(pixel) for phase, pixel in _widest_bars(rows).items()}
    assert any(200 <= hue <= 230 for hue in hues.values()), hues  # loading weights, the longest phase


def _widest_bars(rows: list[list[Pixel]]) -> dict[int, Pixel]:
    """Row -> the saturated colour that runs for a third of the width there."""
    found = {}
    for number, row in enumerate(rows):
        for pixel in set(row[len(row) // 3 : 2 * len(row) // 3 : 7]):
            if max(pixel) - min(pixel) > 60 and row.count(pixel) > len(row) / 3:
                found[number] = pixel
    return found


def _hue(pixel: Pixel) -> float:
    import colorsys

    return 360 * colorsys.rgb_to_hsv(*(part / 255 for part in pixel))[0]
