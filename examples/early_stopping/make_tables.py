"""Write digits.npz (1,797 images of digits) and cancer.npz (569 tumours), which scikit-learn ships."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

for name, data in {"digits": load_digits(), "cancer": load_breast_cancer()}.items():
    np.savez_compressed(f"{name}.npz", x=data.data.astype(np.float32), y=data.target.astype(np.int64))
