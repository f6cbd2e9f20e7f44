"""What the records mean: results, metrics, intervals, attribution, tables, figures, guidelines."""
