"""The frozen view that decisions are made on, and the live state that it is cut from."""
