# good

import pandas as pd
frame = pd.DataFrame({"plain": fall(), "smoothed": fall(rate=0.3)}, index=pd.Index(range(1, 31), name="Epoch"))
ax = frame.plot(figsize=(5, 3.2), style=["-", "--"], ylabel="Loss")
fig = ax.figure
fig.tight_layout()
