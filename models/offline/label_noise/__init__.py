"""Label noise and calibration, after the second paper of AI-Scientist-v2 (appendix C.2)."""
