"""Read PDFs: words with boxes and fonts, reading order, sections, pictures of pages.

`reader` asks a process of its own (`worker`) for words and pictures, since PDFs are untrusted. `layout` orders words
into lines and text; `sections` finds headings by their layout. The library is pypdfium2 (PDFium, as in Chromium).
"""
