"""Allocate GPU memory outside the program: `hold.py SHARE SECONDS`; prints `held` when done."""
import sys
import time

import torch

free, _ = torch.cuda.mem_get_info()
block = torch.empty(int(free * float(sys.argv[1])), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
