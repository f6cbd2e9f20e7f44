"""Predictions written down before anything is measured, and scored against what then was."""
