"""The dashboard in a browser: the gate in front of it, and a process of it for each tab."""
