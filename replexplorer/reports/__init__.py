"""Documents and pages of what was measured: JSON, Markdown, HTML, SVG; for verbs and dashboard alike."""
