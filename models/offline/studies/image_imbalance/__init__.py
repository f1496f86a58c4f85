"""Augmentation and class imbalance on small images, after the third paper of AI-Scientist-v2 (appendix C.3)."""
