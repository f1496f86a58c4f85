"""Which parts of the method are taken out: planned before the last stage, and asked for again after the draft."""
