"""Papers that try to talk a judge round, by kind. Every kind of `held_out` was written before the guards were tuned."""
