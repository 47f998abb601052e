#!/usr/bin/env python3
"""Programs of scikit-learn and SciPy on arrays of thalweg, compared with the same programs on NumPy's.

Usage: python conformance/programs.py [NAME ...]. Prints one line for each program that fails, and the number of those that
run and agree. Needs scikit-learn and scipy. `tests/test_programs.py` runs the same programs under pytest.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"

import sys
import traceback
import warnings

import numpy as np

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
POSITIVE = np.abs(X) + 0.1
Y = RNG.normal(size=60)
CLASSES = RNG.integers(0, 3, size=60)
BINARY = RNG.integers(0, 2, size=60)
BINARY2 = np.where(RNG.random(60) < 0.8, BINARY, 1 - BINARY)
SCORES = np.clip(BINARY * 0.4 + RNG.random(60) * 0.6, 0.01, 0.99)
WAVE = np.sin(np.linspace(0, 20, 128)) + 0.1 * RNG.normal(size=128)

PROGRAMS = {}


def program(f):
    """Registers a program: a function of a conversion from NumPy to the array library."""
    PROGRAMS[f.__name__] = f
    return f


def metric(name, *data, **options):
    def f(a):
        import sklearn.metrics

        function = getattr(sklearn.metrics, name)
        return function(*(a(d) for d in data), **options)

    PROGRAMS[f"metrics.{name}" + "".join(f"_{v}" for v in options.values())] = f


def pairwise(name, *data, **options):
    def f(a):
        import sklearn.metrics.pairwise as pairwise

        return getattr(pairwise, name)(*(a(d) for d in data), **options)

    PROGRAMS[f"pairwise.{name}" + "".join(f"_{v}" for v in options.values())] = f


metric("accuracy_score", CLASSES, CLASSES[::-1].copy())
metric("balanced_accuracy_score", CLASSES, CLASSES[::-1].copy())
metric("confusion_matrix", CLASSES, CLASSES[::-1].copy())
metric("multilabel_confusion_matrix", CLASSES, CLASSES[::-1].copy())
metric("cohen_kappa_score", CLASSES, CLASSES[::-1].copy())
metric("zero_one_loss", CLASSES, CLASSES[::-1].copy())
metric("hamming_loss", CLASSES, CLASSES[::-1].copy())
metric("f1_score", BINARY, BINARY2)
metric("f1_score", CLASSES, CLASSES[::-1].copy(), average="macro")
metric("fbeta_score", BINARY, BINARY2, beta=0.5)
metric("precision_score", BINARY, BINARY2)
metric("recall_score", BINARY, BINARY2)
metric("jaccard_score", BINARY, BINARY2)
metric("brier_score_loss", BINARY, SCORES)
metric("log_loss", BINARY, SCORES)
metric("roc_curve", BINARY, SCORES)
metric("precision_recall_curve", BINARY, SCORES)
metric("det_curve", BINARY, SCORES)
metric("explained_variance_score", Y, Y + 0.1 * X[:, 0])
metric("max_error", Y, Y + 0.1 * X[:, 0])
metric("mean_absolute_error", Y, Y + 0.1 * X[:, 0])
metric("mean_absolute_percentage_error", Y, Y + 0.1 * X[:, 0])
metric("mean_squared_error", Y, Y + 0.1 * X[:, 0])
metric("root_mean_squared_error", Y, Y + 0.1 * X[:, 0])
metric("mean_squared_log_error", POSITIVE[:, 0], POSITIVE[:, 1])
metric("root_mean_squared_log_error", POSITIVE[:, 0], POSITIVE[:, 1])
metric("median_absolute_error", Y, Y + 0.1 * X[:, 0])
metric("mean_pinball_loss", Y, Y + 0.1 * X[:, 0])
metric("mean_gamma_deviance", POSITIVE[:, 0], POSITIVE[:, 1])
metric("mean_poisson_deviance", POSITIVE[:, 0], POSITIVE[:, 1])
metric("mean_tweedie_deviance", POSITIVE[:, 0], POSITIVE[:, 1], power=1.5)
metric("d2_tweedie_score", POSITIVE[:, 0], POSITIVE[:, 1])
metric("d2_absolute_error_score", Y, Y + 0.1 * X[:, 0])
metric("d2_pinball_score", Y, Y + 0.1 * X[:, 0])
metric("r2_score", Y, Y + 0.1 * X[:, 0])

pairwise("cosine_similarity", X)
pairwise("cosine_distances", X)
pairwise("euclidean_distances", X, X[:7] + 1)
pairwise("manhattan_distances", X, X[:7] + 1)
pairwise("linear_kernel", X)
pairwise("polynomial_kernel", X)
pairwise("rbf_kernel", X)
pairwise("laplacian_kernel", X)
pairwise("sigmoid_kernel", X)
pairwise("chi2_kernel", POSITIVE)
pairwise("additive_chi2_kernel", POSITIVE)
pairwise("paired_cosine_distances", X, X + 1)
pairwise("paired_euclidean_distances", X, X + 1)
pairwise("paired_manhattan_distances", X, X + 1)
pairwise("pairwise_distances", X, metric="cosine")
pairwise("pairwise_kernels", X, metric="rbf")


def estimator(name, make, *, y=None, results=("transform",), data=X):
    def f(a):
        model = make()
        x = a(data)
        model.fit(x, a(y)) if y is not None else model.fit(x)
        return [getattr(model, r)(x) if callable(getattr(model, r)) else getattr(model, r) for r in results]

    PROGRAMS[name] = f


def lazy(module, name, **options):
    def make():
        import importlib

        return getattr(importlib.import_module(f"sklearn.{module}"), name)(**options)

    return make


estimator("StandardScaler", lazy("preprocessing", "StandardScaler"), results=("transform", "mean_", "var_"))
estimator("MinMaxScaler", lazy("preprocessing", "MinMaxScaler"))
estimator("MaxAbsScaler", lazy("preprocessing", "MaxAbsScaler"))
estimator("Normalizer", lazy("preprocessing", "Normalizer"))
estimator("Normalizer_l1", lazy("preprocessing", "Normalizer", norm="l1"))
estimator("Binarizer", lazy("preprocessing", "Binarizer", threshold=0.2))
estimator("PolynomialFeatures", lazy("preprocessing", "PolynomialFeatures", degree=3))
estimator("KernelCenterer", lazy("preprocessing", "KernelCenterer"), data=X @ X.T)
estimator("LabelBinarizer", lazy("preprocessing", "LabelBinarizer"), data=CLASSES)
estimator("LabelEncoder", lazy("preprocessing", "LabelEncoder"), data=CLASSES)
estimator("PCA", lazy("decomposition", "PCA", n_components=2, svd_solver="full"), results=("transform", "explained_variance_"))
estimator("PCA_eigh", lazy("decomposition", "PCA", n_components=2, svd_solver="covariance_eigh"), results=("transform",))
estimator(
    "PCA_randomized",
    lazy("decomposition", "PCA", n_components=2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0),
    results=("explained_variance_",),
)
estimator("Ridge", lazy("linear_model", "Ridge", solver="svd"), y=Y, results=("predict", "coef_"))
estimator("RidgeCV", lazy("linear_model", "RidgeCV"), y=Y, results=("predict",))
estimator("RidgeClassifier", lazy("linear_model", "RidgeClassifier", solver="svd"), y=CLASSES, results=("decision_function",))
estimator("LDA", lazy("discriminant_analysis", "LinearDiscriminantAnalysis"), y=CLASSES, results=("predict", "predict_proba"))
estimator("GaussianNB", lazy("naive_bayes", "GaussianNB"), y=CLASSES, results=("predict", "predict_proba"))
estimator("GaussianMixture", lazy("mixture", "GaussianMixture", n_components=2, init_params="random_from_data", random_state=0), results=("means_",))


@program
def cross_val_predict(a):
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_predict

    return cross_val_predict(Ridge(solver="svd"), a(X), a(Y), cv=3)


@program
def train_test_split(a):
    from sklearn.model_selection import train_test_split

    return train_test_split(a(X), a(Y), random_state=0)


@program
def pipeline(a):
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), PCA(n_components=2, svd_solver="full")).fit_transform(a(X))


def scipy_function(path, *data, **options):
    def f(a):
        import importlib

        module, _, name = path.rpartition(".")
        function = getattr(importlib.import_module(f"scipy.{module}"), name)
        result = function(*(a(d) if isinstance(d, np.ndarray) else d for d in data), **options)
        return list(result) if hasattr(result, "_fields") else result

    PROGRAMS[f"scipy.{path}"] = f


scipy_function("special.logsumexp", X, axis=1)
scipy_function("special.softmax", X, axis=1)
scipy_function("special.log_softmax", X, axis=1)
scipy_function("special.erf", X)
scipy_function("special.expit", X)
scipy_function("special.gammaln", POSITIVE)
scipy_function("special.xlogy", POSITIVE, POSITIVE)
scipy_function("special.entr", POSITIVE)
scipy_function("stats.gmean", POSITIVE)
scipy_function("stats.hmean", POSITIVE)
scipy_function("stats.pmean", POSITIVE, 2)
scipy_function("stats.skew", X)
scipy_function("stats.kurtosis", X)
scipy_function("stats.moment", X, 3)
scipy_function("stats.variation", POSITIVE)
scipy_function("stats.sem", X)
scipy_function("stats.zscore", X)
scipy_function("stats.zmap", X, X + 1)
scipy_function("stats.gzscore", POSITIVE)
scipy_function("stats.gstd", POSITIVE)
scipy_function("stats.iqr", X)
scipy_function("stats.describe", X)
scipy_function("stats.tmean", X)
scipy_function("stats.tvar", X)
scipy_function("stats.tstd", X)
scipy_function("stats.tsem", X)
scipy_function("stats.tmin", X)
scipy_function("stats.tmax", X)
scipy_function("stats.kstat", X, 3)
scipy_function("stats.circmean", X)
scipy_function("stats.circvar", X)
scipy_function("stats.circstd", X)
scipy_function("stats.entropy", POSITIVE)
scipy_function("stats.differential_entropy", X)
scipy_function("stats.boxcox_llf", 0.5, POSITIVE)
scipy_function("stats.lmoment", X)
scipy_function("stats.quantile", X, 0.3)
scipy_function("stats.rankdata", X)
scipy_function("stats.linregress", X[:, 0], Y)
scipy_function("integrate.trapezoid", X)
scipy_function("integrate.simpson", X)
scipy_function("integrate.cumulative_trapezoid", X)
scipy_function("integrate.cumulative_simpson", X)
scipy_function("cluster.vq.whiten", X)
scipy_function("cluster.vq.vq", X, X[:4])
scipy_function("optimize.rosen", X[0])
scipy_function("optimize.rosen_der", X[0])
scipy_function("constants.convert_temperature", POSITIVE, "C", "K")
scipy_function("fft.fft", WAVE)
scipy_function("fft.rfft", WAVE)
scipy_function("fft.ifftn", X)
scipy_function("fft.fftshift", WAVE)
scipy_function("fft.fht", WAVE, 0.1, 0.5)
scipy_function("signal.detrend", WAVE)
scipy_function("signal.fftconvolve", WAVE, WAVE[:9])
scipy_function("signal.oaconvolve", WAVE, WAVE[:9])
scipy_function("signal.hilbert", WAVE)
scipy_function("signal.sawtooth", WAVE)
scipy_function("signal.square", WAVE)


def statistics_test(name, *data, **options):
    def f(a):
        import scipy.stats

        result = getattr(scipy.stats, name)(*(a(d) for d in data), **options)
        return [result.statistic, result.pvalue]

    PROGRAMS[f"scipy.stats.{name}"] = f


statistics_test("ttest_1samp", X, np.asarray(0.1))
statistics_test("ttest_ind", X, X + 0.2)
statistics_test("ttest_rel", X, X + 0.2 * X[::-1])
statistics_test("pearsonr", X[:, 0], Y)
statistics_test("spearmanr", X[:, 0], Y)
statistics_test("skewtest", X)
statistics_test("kurtosistest", X)
statistics_test("normaltest", X)
statistics_test("jarque_bera", X)
statistics_test("bartlett", X[:, 0], X[:, 1], X[:, 2])
statistics_test("f_oneway", X[:, 0], X[:, 1], X[:, 2])
statistics_test("chisquare", POSITIVE)
statistics_test("power_divergence", POSITIVE, lambda_=0.5)
statistics_test("mannwhitneyu", X[:, 0], X[:, 1], method="asymptotic")
statistics_test("kruskal", X[:, 0], X[:, 1], X[:, 2])
statistics_test("levene", X[:, 0], X[:, 1], X[:, 2])


@program
def scipy_window(a):
    import scipy.signal

    xp = sys.modules[type(a(X)).__module__.split(".")[0]]
    return scipy.signal.windows.hann(32, xp=xp)


@program
def scipy_rotation(a):
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(a(RNG.normal(size=(3, 4)) * 0 + np.arange(12.0).reshape(3, 4) + 1)).apply(a(np.ones(3)))


@program
def scipy_find_root(a):
    from scipy.optimize import elementwise

    c = a(np.array([2.0, 3.0, 5.0]))
    return elementwise.find_root(lambda x, c: x * x - c, (a(np.zeros(3)), a(np.full(3, 9.0))), args=(c,)).x


@program
def scipy_derivative(a):
    from scipy.differentiate import derivative

    return derivative(lambda x: x**3, a(np.array([1.0, 2.0]))).df


@program
def scipy_tanhsinh(a):
    from scipy.integrate import tanhsinh

    return tanhsinh(lambda x: x**2, a(np.array(0.0)), a(np.array([1.0, 2.0]))).integral


@program
def scipy_kmeans(a):
    from scipy.cluster.vq import kmeans

    return kmeans(a(X), a(X[:3].copy()))


def as_numpy(value):
    """Results as a list of NumPy arrays."""
    if isinstance(value, (list, tuple)):
        return [part for v in value for part in as_numpy(v)]
    return [np.asarray(value)]


def run(name):
    """Runs a program on both libraries; raises where they differ. Returns whether the result is thalweg's."""
    import sklearn
    import thalweg as tw

    f = PROGRAMS[name]
    with warnings.catch_warnings(), sklearn.config_context(array_api_dispatch=True):
        warnings.simplefilter("ignore")
        want = as_numpy(f(np.asarray))
        got = f(tw.asarray)
        found = as_numpy(got)
    assert len(want) == len(found), f"{len(found)} results, not {len(want)}"
    for w, g in zip(want, found):
        if w.dtype.kind in "fc":
            sign = 1.0
            np.testing.assert_allclose(g * sign, w, rtol=1e-6, atol=1e-9)
        else:
            np.testing.assert_array_equal(g, w)


def main():
    names = sys.argv[1:] or list(PROGRAMS)
    good = 0
    for name in names:
        try:
            run(name)
            good += 1
        except Exception as e:
            if len(names) < 4:
                traceback.print_exc()
            text = " ".join(str(e).split())
            print(f"{name}: {type(e).__name__}: {text[:200]}", flush=True)
    print(f"{good} of {len(names)} programs run and agree")


if __name__ == "__main__":
    main()
