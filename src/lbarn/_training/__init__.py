"""From rows to a trained network."""
