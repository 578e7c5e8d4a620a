"""Every JSON shape that a verb prints, one module a verb; `schema` collects them."""
