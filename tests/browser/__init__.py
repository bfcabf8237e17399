"""The dashboard in a real browser: Chromium, driven by Playwright, with axe-core for accessibility.

`OUTLIER_SCREENSHOTS=docs/images python -m pytest tests/browser/test_pictures.py` draws the pictures of the docs.
"""
