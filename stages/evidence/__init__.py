"""What a winner's numbers are held to: probes, test scores, resamples, and being executed again."""
