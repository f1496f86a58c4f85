"""What studies share: templates of plots and figures, and a plain paper for a study that has none of its own."""
