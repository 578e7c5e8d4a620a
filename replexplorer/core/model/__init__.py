"""What the settings should give: the bound of the link, the fitted model, what limits."""
