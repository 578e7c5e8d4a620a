"""What keys do: one registry, as bindings, palette and help."""
