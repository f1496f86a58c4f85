"""What calls into libraries do to a value's origin, by dotted name; what is not listed passes on what it is given."""

from __future__ import annotations

import re

ELEMENTWISE = ("numpy", "math", "torch", "scipy", "jax.numpy", "statistics", "operator", "functools", "itertools",
               "einops", "builtins", "copy", "collections")
"""Packages whose functions give what their arguments are, with the exceptions below."""

MODELS = ("torch.nn", "sklearn", "xgboost", "lightgbm", "torchvision.models", "transformers", "torch.optim", "timm",
          "catboost", "jax", "flax", "keras", "tensorflow")
"""Packages whose objects are networks, estimators, optimisers or tokenisers."""

FUNCTIONAL = ("torch.nn.functional", "torch.nn.utils", "torch.nn.init", "sklearn.metrics", "sklearn.utils",
              "torch.utils.data", "pandas", "jax.numpy")

DRAWS = re.compile(
    r"^(numpy\.random|random|torch\.random|jax\.random|scipy\.stats\.\w+\.rvs)(\.|$)"
    r"|^torch\.(rand|randn|randint|randperm|bernoulli|normal|rand_like|randn_like|randint_like|multinomial)$"
    r"|^torch\.distributions\.|^secrets\.")
"""Random numbers. `torch.multinomial` and its like keep what their arguments are, too."""

MADE_UP = re.compile(r"(^|\.)make_(classification|blobs|moons|circles|regression|gaussian_quantiles|multilabel\w*|"
                     r"s_curve|swiss_roll|friedman\d|low_rank_matrix|sparse_\w+)$|\.FakeData$")
"""Generators of data sets."""

LOADERS = re.compile(r"^sklearn\.datasets\.(load|fetch)_|^datasets\.load_(dataset|from_disk)$|^torchvision\.datasets\."
                     r"|^tensorflow_datasets\.load$|^keras\.datasets\.|^tensorflow\.keras\.datasets\.")
READS = re.compile(r"^(builtins\.open|io\.open|numpy\.(load|loadtxt|genfromtxt|fromfile|memmap)|pandas\.read_\w+|"
                   r"torch\.load|joblib\.load|json\.load|pickle\.load|yaml\.safe_load|csv\.reader)$")
READ_METHODS = frozenset({"read_text", "read_bytes"})
WRITES = re.compile(r"^(numpy\.(save|savez|savez_compressed|savetxt)|torch\.save|joblib\.dump|json\.dump|pickle\.dump)"
                    r"$")
WRITE_METHODS = frozenset({"write_text", "write_bytes", "to_csv", "to_parquet", "to_json", "to_pickle", "tofile",
                           "save_pretrained", "save_model"})

SIZES = frozenset({"shape", "ndim", "dtype", "size", "numel", "dim", "device", "nbytes", "itemsize", "columns",
                   "index"})
"""Attributes and methods that tell of the form of an array, not of its contents."""
LIKE = re.compile(r"\.(zeros|ones|empty|full)_like$")
LIKE_DRAWS = re.compile(r"\.rand(n|int)?_like$")
FORMS = re.compile(r"\.(zeros|ones|empty|eye|identity|shape|ndim|size)$")
"""Arrays that are made of a shape."""

SOFTMAX = re.compile(r"(^|\.)(log_)?softmax$|(^|\.)sigmoid$|(^|\.)expit$")
ANSWERS = re.compile(r"softmax|sigmoid|predict|probab|logits|infer|forecast|classify", re.I)
"""Names of functions of the source that give predictions."""
PREDICTS = frozenset({"predict", "predict_proba", "predict_log_proba", "decision_function", "generate"})
SCORES = re.compile(r"(^|\.)(mean|nanmean|average|item|fmean|median|\w+_score|\w+_error|log_loss|score)$")
STATISTICS = frozenset({"mean", "std", "var", "min", "max", "median", "quantile", "percentile", "nanmean", "nanstd"})
JOINS = re.compile(r"\.(concatenate|vstack|row_stack|cat|concat|append|stack|r_)$")
MUTATORS = frozenset({"append", "extend", "add", "update", "insert", "appendleft", "setdefault", "copy_", "fill_",
                      "add_", "partial_fit", "fit", "fit_transform", "fit_predict", "load_state_dict", "fill", "put",
                      "write", "train_on_batch"})
"""Methods that put what they are given into their object."""
FITS = frozenset({"fit", "partial_fit", "fit_transform", "fit_predict", "train_on_batch"})

SEEDERS = re.compile(r"^(numpy\.random\.seed|torch\.manual_seed|torch\.random\.manual_seed|random\.seed|"
                     r"torch\.cuda\.manual_seed(_all)?|tensorflow\.random\.set_seed|"
                     r"(transformers|accelerate\.utils|pytorch_lightning|lightning)\.(set_seed|seed_everything))$")
"""Calls that seed what all later code draws from."""
GENERATORS = re.compile(r"^(numpy\.random\.(default_rng|RandomState|Generator|SeedSequence|PCG64)|random\.Random|"
                        r"jax\.random\.(PRNGKey|key))$")
"""Calls that make a source of randomness of its own."""

QUALITY = re.compile(
    r"acc|loss|(^|_)f1|auc|auroc|(^|_)(mse|mae|rmse|r2|nll|ece|iou|map|fid|mrr|ppl)(_|$)|error|score|reward|return|"
    r"bleu|rouge|perplexity|brier|precision|recall|dice|mcc|psnr|ssim|likelihood|correct|success|win_rate|"
    r"calibration", re.I)
"""Names of metrics that say how well something does; a number of parameters or a duration comes from no data."""

CHANCE = re.compile(r"chance|random|uniform|guess|constant|dummy|majority|prior|null|naive|untrained|coin", re.I)
"""Names of arms that are meant to know nothing."""

RATES = re.compile(r"^rate$|(^|_)(lr|learning_rate|eta0?|step_size)$", re.I)
"""Names that a learning rate may have, as other things may: what it is shows where it goes."""
GIVEN_RATES = re.compile(r"^(lr|learning_rate|learning_rate_init|eta)$")
"""Arguments by which libraries take a learning rate."""
STEPS = re.compile(r"^(?!.*(warm_?up|attack|inner|swa|tune|burn|smooth|every|patience))(\w+_)?"
                   r"(epochs?|steps|iterations|iters|rounds|updates|trials|n_estimators|max_iter|num_boost_round)$",
                   re.I)
"""Names of the length of a training, and not of one of its phases or of something else."""
TRANSFORMS = ("sklearn.preprocessing", "sklearn.decomposition", "sklearn.feature_selection", "sklearn.impute",
              "sklearn.feature_extraction", "sklearn.random_projection", "sklearn.compose", "torch.optim")
"""Packages whose objects predict nothing."""
SCHEDULES = "torch.optim.lr_scheduler"
RATING = frozenset({"OneCycleLR", "CyclicLR"})
"""Schedules that set a learning rate whatever the optimiser was made with."""
REDRAWS = frozenset({"reset_parameters", "apply", "init_weights", "post_init"})
"""Methods that draw a network's parameters anew."""
UPDATES = frozenset({"copy_", "add_", "sub_", "mul_", "set_", "lerp_", "addcmul_", "addcdiv_", "fill_"})
"""Methods by which a source updates parameters itself."""
PERMUTES = re.compile(r"(^|\.)(permutation|permuted|shuffle|randperm)$")
RELATED = re.compile(r"\.(cov|svd|eigh|eig|svdvals|corrcoef|pca_lowrank|norm|ptp|unique|nanquantile)$")
"""Functions that describe all rows together."""
UNLEARNT = re.compile(r"untrained|random|frozen|init|zero-?shot|chance|guess|dummy|no-?training|prior", re.I)
"""Names of arms that are meant to be left as they were drawn."""
FLOORS = re.compile(r"\.(maximum|fmax|clip|clamp|clamp_min)$")
"""Functions that hold a number above another."""
TRAINS = re.compile(r"^_*(fit|train)", re.I)
"""Names of functions of the source that train."""
