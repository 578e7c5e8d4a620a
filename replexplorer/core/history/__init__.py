"""What a session was: points for the charts, epochs between changes, exports."""
