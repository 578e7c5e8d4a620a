"""What is kept of a session: the chronicle of events, the recording, the replay."""
