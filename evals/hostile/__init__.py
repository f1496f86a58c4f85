"""Papers with attacks on a judge, by kind. All of `held_out_attacks` were written before the guards were tuned."""
