# good

import datetime
days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=10 * k) for k in range(30)]
fig, ax = plt.subplots(figsize=(5.4, 3), layout="constrained")
ax.plot(days, fall())
ax.set_ylabel("Visits (thousands)")
ax.set_xlabel("Date")
fig.autofmt_xdate()
