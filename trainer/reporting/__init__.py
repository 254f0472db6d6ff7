"""What is written down of a run: metrics, summaries, times, the environment."""
