"""Plugins of pod admission, one file each."""
