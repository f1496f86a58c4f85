# good

n = np.array([100, 300, 1000, 3000, 10000])
fig, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
ax.loglog(n, 30 / np.sqrt(n), "o-", label="Plain"); ax.loglog(n, 20 / np.sqrt(n), "s--", label="Method")
ax.set(xlabel="Training rows", ylabel="Error rate (%)"); ax.legend()
