"""Pillow."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Pillow",
    requires=("PIL",),
    prelude="from PIL import Image, ImageDraw, ImageFilter, ImageFont",
    cases=(
        Case(
            "Image",
            "x = Image.new('RGB', (4, 4), 'red')",
            "print(x.getpixel((0, 0)), x.mode)",
            "x.putpixel((0, 0), (1, 2, 3))",
        ),
        Case(
            "Image with a palette",
            "x = Image.new('P', (2, 2)); x.putpalette([1, 2, 3] * 256)",
            "print(x.getpalette()[:3], x.mode)",
            "x.putpalette([9] * 768)",
        ),
        Case(
            "Image with information",
            "x = Image.new('L', (2, 2)); x.info['dpi'] = (1, 1)",
            "print(x.info)",
            "x.info['dpi'] = (2, 2)",
        ),
        Case(
            "Image of a file",
            "x = Image.open('i.png')",
            "print(x.size, x.format, x.getpixel((0, 0)))",
            "x.putpixel((0, 0), 9)",
            prepare="Image.new('L', (3, 3), 7).save('i.png')",
        ),
        Case(
            "Image of a file, not loaded",
            "x = Image.open('j.png')",
            "print(x.size, x.format)",
            "x.info['k'] = 1; x = x.resize((2, 2))",
            prepare="Image.new('L', (3, 3), 7).save('j.png')",
        ),
        Case(
            "ImageDraw",
            "i = Image.new('L', (4, 4)); x = ImageDraw.Draw(i)",
            "print(i.getpixel((1, 1)))",
            "x.rectangle((0, 0, 3, 3), fill=9)",
            recomputed="it draws into memory of its own kind",
        ),
        Case("Exif", "x = Image.Exif(); x[271] = 'maker'", "print(dict(x))", "x[271] = 'other'"),
        Case(
            "ImageFont",
            "x = ImageFont.load_default(20)",
            "print(x.size)",
            recomputed="its pickle does not load",
        ),
        Case("filter", "x = ImageFilter.GaussianBlur(2)", "print(x.radius)", "x.radius = 5"),
    ),
)
