"""Which metric makes near rows alike in their given labels: features as they are, their directions,
normal scores of those of heavy tails, weights of them, or weighted features with a model's logits
beside them.

Weights and logits are learned on a sample, and a metric is judged by how well the labels of a row's
neighbors predict its label, on rows that it was not learned on. Labels are the given ones, wrong
ones among them: their proper loss orders metrics as that of the true labels would if mistakes do
not depend on the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from pipeline.arrays import Float32, Float64, Int64, Integers
from pipeline.blocks.curves import Curves, curves
from pipeline.blocks.logits import MOST_FEATURES, Forests, fit_logits, fitted_beside, spread_of
from pipeline.blocks.scaling import FeatureStatistics, Scaling
from pipeline.knn.exact import nearest
from pipeline.knn.threads import ALONE, Threads, one_thread, quiet

AS_SCALED, COSINE, WEIGHTED, MODEL = "as-scaled", "cosine", "weighted", "model"
NORMAL_SCORES = "normal-scores"
PROBABILITIES = "probabilities"
LEARNED = (WEIGHTED, MODEL)
"""Metrics that are learned, and need features that tell something of the labels."""
RIVALS = (*LEARNED, COSINE)
"""Metrics that may win by shares of labels alone where how far neighbors are tells as much."""
FEW_CLASSES = 30
"""Classes up to which metrics are compared by how far neighbors are, too."""
FEWEST_ROWS = 100
"""Rows below which nothing is learned."""
SIZES = (5, 9, 15, 25, 40, 65, 100)
"""Numbers of neighbors whose labels predict a row's; a metric is judged at the best of them."""
NARROW = 15
"""Number of neighbors that is allowed in samples of large pools, too: fewer show chance more than
nearness."""
SAMPLE_ROWS = 24_000
"""Rows among which neighbors are sought, at most."""
JUDGED_ROWS = 4000
"""Rows whose labels are predicted, at most."""
LEARNING_ROWS = 8000
"""Rows that weights are learned on, at most."""
FOLDS = 3
"""Parts of a sample of few rows; each is judged by what was learned on the others."""
TREES = 40
DEEPEST = 1 << 30
"""Levels of a tree at most: no limit."""
LEAF = 10, 0.01
"""Rows of a leaf at least: a number, and a share of those learned on."""
FEW_VALUES = 60_000
"""Rows times features up to which one thread fits trees sooner than several have begun."""
TINIEST = 1e-12
"""What keeps distances and spreads above 0."""
ROUNDS, SURELY = 3, 2.0
"""How often relevance is estimated, each time among the features that had some before; and standard
errors by which more than once must pay."""
EMBEDDING = 64
"""Features from which an array is taken for an embedding, whose scale means something."""
EVIDENT = 0.05
"""Share of the log loss by which weights have to lower that of embeddings: they do by 6 % and more
on wide tables, and by less than 3 where they cost suspects."""
LEAST = 1e-4
"""Least relevance of a feature, as a share of the largest: rows that differ in useless features
alone must not be equal."""


@dataclass(frozen=True)
class Tried:
    """How well neighbors' labels predict given labels with one metric."""

    metric: str
    loss: float
    """Mean log loss, in nats."""
    behind: float
    """By how much it exceeds the least loss."""
    standard_error: float
    """Of that difference."""
    k: int
    """Number of neighbors at which it is least."""


@dataclass(frozen=True)
class Trial:
    """A metric tried on rows of a sample."""

    index: Int64
    """(judged, rank) the nearest others of its first rows."""
    distance: Float32
    """(judged, rank) how far they are."""
    loss: Float64
    """(judged, size) ``label_losses``."""

    @property
    def least(self) -> float:
        """Mean loss at the size where it is least."""
        return float(self.loss.mean(axis=0).min())


@dataclass(frozen=True)
class MetricChoice:
    """The metrics that were tried, and the one taken: the simplest that is within one standard
    error of the best."""

    metric: str
    tried: list[Tried]
    relevance: list[float]
    """(feature,) share of each in telling given labels apart; negative if less than for shuffled
    labels; empty where weights were not tried."""
    n_judged: int
    by_reach: float = 0.0
    """Log loss by which features as scaled predict better than the metric that would else be taken,
    where it counts how far neighbors are, too."""
    no_direction: float = 0.0
    """Share of the rows that are zero in all features, where directions are compared."""

    def why_no_model(self) -> str | None:
        """Why logits were not tried where weights were; None where these were not."""
        if all(one.metric != WEIGHTED for one in self.tried):
            return None
        return (
            "a model needs several classes in each part of the sample, and at most "
            f"{MOST_FEATURES:,} features where classes are many"
        )

    def order(self) -> list[int]:
        """Features, the most relevant first."""
        return sorted(range(len(self.relevance)), key=lambda at: (-self.relevance[at], at))

    @property
    def chance(self) -> float:
        """Relevance that a feature may have by chance: as much as the least is below 0."""
        return max(0.0, -min(self.relevance, default=0.0))


@dataclass(frozen=True)
class Modeled(Scaling):
    """Weighted features, normal scores among them, and, beside them, logits."""

    forests: Forests | None = None
    curves: Curves | None = None

    def apply(self, x: Float32) -> Float32:
        """(row, feature and logit) float32 of rows (row, feature) float32."""
        x = x if self.curves is None else self.curves.apply(x)
        weighted = super().apply(x)
        return weighted if self.forests is None else np.hstack([weighted, self.forests.apply(x)])


@dataclass(frozen=True)
class Judge:
    """What all metrics are judged by: labels of a sample's first rows."""

    y: Integers
    """(row,) codes of the sample."""
    n_judged: int
    k: tuple[int, ...]
    """`sizes` of the sample."""
    threads: Threads = ALONE

    def of(self, x: Float32) -> Trial:
        """A metric that makes x (row, feature) of the sample."""
        return self.of_parts([(np.arange(self.n_judged), x)])

    def of_parts(self, parts: Iterable[tuple[Int64, Float32]]) -> Trial:
        """A metric that is learned apart from what it is judged by.

        parts : places of rows to judge, and features of all rows as the metric has them for these;
            read one after the other, as each is as large as the sample
        """
        index = np.empty((self.n_judged, self.k[-1]), np.int64)
        distance = np.empty(index.shape, np.float32)
        for rows, x in parts:
            index[rows], distance[rows] = nearest(
                x[rows], x, self.k[-1], exclude=rows, threads=self.threads
            )
        return Trial(index, distance, label_losses(index, self.y, self.k))


@dataclass(frozen=True)
class Learned:
    """What labels say of features."""

    shares: Float64
    """(fold, feature) of which each fold's weights are made."""
    of_folds: list[tuple[Int64, Scaling]]
    """For each fold, the rows to judge and their weights."""
    trial: Trial
    """Of these."""
    of_all: Scaling
    """The weights to take."""
    relevance: Float64
    """(feature,) beyond that for shuffled labels; none above 0 where features tell nothing."""
    forests: Forests | None = None
    """Logits to stand beside."""

    @property
    def tells(self) -> bool:
        """Whether any feature tells something."""
        return bool(self.relevance.max(initial=0.0) > 0)


def choose_metric(
    x: Float32,
    y: Integers,
    seed: int,
    requested: str = "auto",
    *,
    angles: bool = True,
    embedded: bool = False,
    logits: Float32 | None = None,
    n_rows: int = 0,
    threads: Threads = ALONE,
) -> tuple[MetricChoice, Scaling]:
    """The metric to take, and what it makes of features; as scaled where no feature tells anything.

    Parameters
    ----------
    x : (row, feature) float32, a random sample in random order, as scaled without a metric; at
        least `FEWEST_ROWS`
    y : (row,) codes of given labels
    requested : name of a metric, or "auto" for the one that predicts labels best
    angles : whether "auto" may compare directions, where they differ from the rows; they mean
        nothing where columns were centered
    embedded : whether rows are embeddings, whose scale means something: of what is learned "auto"
        then takes weights alone, where these are `EVIDENT`; else also logits, and normal scores of
        features of heavy tails, which then stand for them in weights and logits, too
    logits : (row, column) float32 by a model of the user's, of spread 1, to try beside the features
    n_rows : rows of the pool, if they are more than those given
    threads : that share the searches and the trees; no part of what is chosen
    """
    x, y = x[:SAMPLE_ROWS], y[:SAMPLE_ROWS]
    judge = Judge(y, min(len(x), JUDGED_ROWS), sizes(len(x), n_rows), threads)
    directions, no_direction = Scaling(directions=True), float((~x.any(axis=1)).mean())
    by = {AS_SCALED: judge.of(x)}
    angles &= x.shape[1] > 1  # a single feature has two
    if requested == COSINE or (angles and not of_one_length(x)):
        by[COSINE] = judge.of(directions.apply(x))
    freely = requested in LEARNED or not embedded
    plain, scores = AS_SCALED, curves(x) if freely else None
    if scores is not None:
        normal = scores.apply(x)
        both = {AS_SCALED: by[AS_SCALED], NORMAL_SCORES: judge.of(normal)}
        plain = simplest(compared(both, judge.k), SURELY).metric
        if plain == NORMAL_SCORES:
            x, by = normal, by | both
        else:
            scores = None
    learned = None
    if freely or requested == "auto":
        with_logits = freely and requested != WEIGHTED
        learned = _learn(x, judge, by[plain].least, freely, with_logits, seed)
    whole, forests = unweighted(x), None
    parts = [(np.arange(judge.n_judged), whole)]
    if learned is not None and learned.tells:
        by[WEIGHTED], parts = learned.trial, learned.of_folds
        whole, forests = learned.of_all, learned.forests
    models = {PROBABILITIES: logits, MODEL: None if forests is None else forests.apply(x)}
    for name, columns in models.items():
        if columns is not None:
            beside = ((rows, np.hstack([to.apply(x), columns])) for rows, to in parts)
            by[name] = judge.of_parts(beside)
    tried = compared(by, judge.k)
    taken, by_reach = requested if requested in by else simplest(tried).metric, 0.0
    if requested == "auto" and taken in RIVALS and scores is None and y.max() < FEW_CLASSES:
        by_reach = _lost_by_reach(by, tried, taken, y)
        taken = AS_SCALED if by_reach else taken
    relevant = [] if learned is None else learned.relevance.tolist()
    choice = MetricChoice(taken, tried, relevant, judge.n_judged, by_reach)
    if taken == COSINE:
        return replace(choice, no_direction=no_direction), directions
    if taken == AS_SCALED:
        return choice, Scaling()
    if taken == NORMAL_SCORES:
        return choice, Modeled(curves=scores)
    forests = forests if taken == MODEL else None
    if forests is None and scores is None:
        return choice, whole
    return choice, Modeled(whole.offset, whole.factor, False, forests, scores)


def _lost_by_reach(by: dict[str, Trial], tried: list[Tried], taken: str, y: Integers) -> float:
    """Log loss by which features as scaled predict better than the metric taken, where how far
    neighbors are counts, too; 0 where they do not surely."""
    k_of = {one.metric: one.k for one in tried}
    excess = reached_losses(by[taken], y, k_of[taken])
    excess -= reached_losses(by[AS_SCALED], y, k_of[AS_SCALED])
    surely = 0.0 if taken == COSINE else SURELY  # directions leave out what lengths tell
    is_sure = excess.mean() > surely * excess.std() / np.sqrt(len(excess))
    return float(excess.mean()) if is_sure else 0.0


def _learn(
    x: Float32, judge: Judge, least: float, freely: bool, with_logits: bool, seed: int
) -> Learned:
    """What labels say of features; nothing where that is not `freely` taken, and predicts labels
    not evidently better than the `least` loss of features as they are."""
    most = least if freely else (1.0 - EVIDENT) * least
    with fitted_beside(
        lambda: fit_logits(x, judge.y, seed, judge.threads) if with_logits else None, judge.threads
    ) as fitted:
        learned = _learn_weights(x, judge, most, freely, seed)
    if not freely and learned.trial.least > most:
        return replace(learned, relevance=np.zeros(0))
    return replace(learned, forests=fitted()) if learned.tells else learned


def _learn_weights(x: Float32, judge: Judge, most: float, freely: bool, seed: int) -> Learned:
    """Weights by the better of the two shares of `relevance`, or the second if not `freely`
    learned; or, if their loss is below the `most` that it may be, by those of `joint_relevance`
    where they surely pay, repeated while the loss falls."""
    parts, y, threads = list(folds(len(x), judge.n_judged)), judge.y, judge.threads
    statistics = FeatureStatistics(x.shape[1])
    statistics.see(x)
    both = np.stack([relevance(x[rows], y[rows], seed, threads) for _, rows in parts], axis=1)

    def learned(shares: Float64) -> Learned:
        each = zip(parts, shares, strict=True)
        of_folds = [(rows, weights(statistics, share)) for (rows, _), share in each]
        trial = judge.of_parts((rows, to.apply(x)) for rows, to in of_folds)
        of_all = weights(statistics, shares.mean(axis=0))
        return Learned(shares, of_folds, trial, of_all, both[1].mean(axis=0))

    each = [learned(shares) for shares in (both if freely else both[1:])]
    joint = each[-1:]
    better = min(each, key=lambda way: way.trial.least)
    if better.trial.least < most:
        for more in range(1, ROUNDS):
            again = [
                joint_relevance(x[rows], y[rows], share, seed ^ more, threads)
                for (_, rows), share in zip(parts, joint[-1].shares, strict=True)
            ]
            joint.append(learned(np.stack(again)))
            if joint[-1].trial.least >= joint[-2].trial.least:
                break
    ways = [better, *joint[1:]]
    tried = compared({str(at): way.trial for at, way in enumerate(ways)}, judge.k)
    return ways[tried.index(simplest(tried, SURELY))]


def of_one_length(x: Float32) -> bool:
    """Whether all rows have one length, so that directions order pairs as distances do; lengths may
    be rounded to half precision."""
    squared = np.einsum("rf,rf->r", x, x, dtype=np.float64)
    return bool(np.ptp(squared) <= 2e-3 * squared.max(initial=0.0))


def folds(n_rows: int, n_judged: int) -> Iterator[tuple[Int64, Int64]]:
    """Rows to judge with the rows to learn on for that, never the same ones: one such pair where
    there are rows enough beside those judged, else each part of the rows with the others."""
    row = np.arange(n_rows)
    if n_rows >= n_judged + LEARNING_ROWS:
        yield row[:n_judged], row[n_judged : n_judged + LEARNING_ROWS]
        return
    for fold in range(FOLDS):
        mine = row % FOLDS == fold
        yield np.flatnonzero(mine[:n_judged]), np.flatnonzero(~mine)[:LEARNING_ROWS]


def relevance(x: Float32, y: Integers, seed: int, threads: Threads = ALONE) -> Float64:
    """(2, feature) share of each in telling labels apart: by how much its splits purify the leaves
    of extremely randomized trees (Geurts, Ernst & Wehenkel 2006); then by how much more they do
    than for shuffled labels, as trees split useless features, too.

    Shares above 0 add up to 1. The first serves where all features tell a little, the second where
    few do.
    """
    shuffled = np.random.default_rng([seed, len(y)]).permutation(y)
    relevant = _purified(x, y, seed, threads)
    both = np.stack([relevant, relevant - _purified(x, shuffled, seed, threads)])
    total = np.maximum(both, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(np.divide(both, total, out=np.zeros_like(both), where=total > 0))


def joint_relevance(
    x: Float32, y: Integers, share: Float64, seed: int, threads: Threads = ALONE
) -> Float64:
    """(feature,) the second `relevance` among the features of shares above 0, and 0 for the others:
    splits of useless features hide what others tell together."""
    use = np.flatnonzero(share > 0)
    again = np.zeros_like(share)
    again[use] = np.maximum(relevance(x[:, use], y, seed, threads)[1], 0.0) if len(use) else 0.0
    return again if again.any() else share


def _purified(x: Float32, y: Integers, seed: int, threads: Threads) -> Float64:
    """(feature,) mean decrease of impurity, in units of the whole, by the trees of scikit-learn's
    `ExtraTreesClassifier`. They are grown by what its own classes call when they have checked what
    they are given: checking takes four times as long as growing a small tree. That is private, and
    of a release that has it no more, or otherwise, the classes grow the same trees."""
    leaf = max(LEAF[0], int(LEAF[1] * len(y)))
    largest = np.frexp(np.abs(x).max(axis=0))[1]  # what spreads below 1e-7 is constant to trees
    scaled, n_tried = np.ldexp(x, -largest), max(1, int(np.sqrt(x.shape[1])))
    code = np.unique(y, return_inverse=True)[1]
    seeds = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=TREES)
    try:
        each = _by_kernels(scaled, code, n_tried, leaf, seeds, threads)
    except (ImportError, AttributeError, TypeError, ValueError):
        each = _by_classes(scaled, code, n_tried, leaf, seeds)
    return np.asarray(each.mean(axis=0))


def _by_kernels(
    x: Float32, code: Int64, n_tried: int, leaf: int, seeds: Int64, threads: Threads
) -> Float64:
    """(tree, feature) decrease of impurity."""
    from sklearn.tree._criterion import Gini  # here: importing it costs half a second
    from sklearn.tree._splitter import RandomSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    target, n_classes = code[:, None].astype(np.float64), np.array([int(code.max()) + 1])
    n_features = x.shape[1]
    each = np.empty((len(seeds), n_features))

    def grow(start: int, stop: int) -> None:
        draw = np.random.RandomState(0)  # one for all: making it takes as long as a small tree
        for one in range(start, stop):
            draw.seed(seeds[one])
            splitter = RandomSplitter(Gini(1, n_classes), n_tried, leaf, 0.0, draw, None)
            builder = DepthFirstTreeBuilder(splitter, 2 * leaf, leaf, 0.0, DEEPEST, 0.0)
            tree = Tree(n_features, n_classes, 1)
            builder.build(tree, x, target, None, None)
            each[one] = tree.compute_feature_importances(normalize=False)

    if x.size > FEW_VALUES:
        threads.over(len(seeds), grow, piece=1)
    else:
        grow(0, len(seeds))
    return each


def _by_classes(x: Float32, code: Int64, n_tried: int, leaf: int, seeds: Int64) -> Float64:
    """As `_by_kernels`, bit for bit."""
    from sklearn.tree import ExtraTreeClassifier

    with quiet():  # that so many classes look like quantities
        trees = [
            ExtraTreeClassifier(max_features=n_tried, min_samples_leaf=leaf, random_state=int(one))
            for one in seeds
        ]
        fitted = [tree.fit(x, code).tree_ for tree in trees]
    return np.array([tree.compute_feature_importances(normalize=False) for tree in fitted])


def weights(of: FeatureStatistics, share: Float64) -> Scaling:
    """Standard scores of features times the square root of each one's relevance."""
    root = np.sqrt(np.maximum(share, max(0.0, LEAST * share.max())))
    deviation = of.deviation
    factor = np.divide(root, deviation, out=np.zeros_like(root), where=deviation > 0)
    return Scaling(tuple(of.mean.tolist()), tuple(factor.tolist()))


def unweighted(x: Float32) -> Scaling:
    """Features as they are, of spread 1 together."""
    spread, n_features = spread_of(x), x.shape[1]
    return Scaling((0.0,) * n_features, (1.0 / spread if spread > 0 else 1.0,) * n_features)


def sizes(n_rows: int, n_pool: int = 0) -> tuple[int, ...]:
    """The first of `SIZES`, and those that are at most half of the rows and reach no farther in a
    sample than the largest does in its pool: a metric that wins by wide neighborhoods alone gains
    nothing where they are narrow."""
    most = max(NARROW, SIZES[-1] * min(1.0, n_rows / max(1, n_pool)))
    return SIZES[:1] + tuple(k for k in SIZES[1:] if 2 * k <= n_rows and k <= most)


def label_losses(index: Int64, y: Integers, sizes: tuple[int, ...]) -> Float64:
    """(judged, size) log loss of the first rows' labels, predicted by their nearest other rows,
    (judged, rank), and by the shares of all labels as one neighbor more."""
    own, k = y[: len(index)], np.array(sizes)
    votes = np.cumsum(y[index] == own[:, None], axis=1)[:, k - 1]
    prior = np.bincount(y)[own] / len(y)
    return np.asarray(-np.log((votes + prior[:, None]) / (k + 1.0)))


def reached_losses(by: Trial, y: Integers, k: int) -> Float64:
    """(judged,) log loss of each row's label by a softmax of the logarithms of label shares among
    its k nearest others and of how far these are: nearest to all rows are often those of the class
    that lies closest together, which shares of labels alone take for the others', too.

    It weighs shares, and shares times how far, alike for all classes, which have a bias each, and
    one for how far.
    """
    from scipy.optimize import minimize  # here: slow to import

    code = np.unique(y, return_inverse=True)[1]
    (n, _), c = by.index.shape, int(code.max()) + 1
    cell = np.arange(n)[:, None] * c + code[by.index[:, :k]]
    votes = np.bincount(cell.ravel(), minlength=n * c).reshape(n, c)
    share = np.log((votes + np.bincount(code) / len(y)) / (k + 1.0))
    far = np.log(by.distance[:, [k - 1]] + TINIEST)
    far = (far - far.mean()) / max(far.std(), TINIEST)
    own = code[:n, None] == np.arange(c)

    def log_chance(free: Float64) -> Float64:
        bias, slope = free[2:].reshape(2, c)
        z = (free[0] + free[1] * far) * share + bias + slope * far
        return np.asarray(log_softmax(z, axis=1))

    def loss(free: Float64) -> tuple[float, Float64]:
        logs = log_chance(free)
        away = np.exp(logs) - own
        of_shares, of_classes = away * share, [away.sum(axis=0), (far * away).sum(axis=0)]
        slope = np.r_[of_shares.sum(), (far * of_shares).sum(), np.ravel(of_classes)]
        return float(0.5 * free @ free - logs[own].sum()), slope + free

    start = np.r_[1.0, np.zeros(1 + 2 * c)]
    with one_thread():  # the number of threads decides the last bits
        fitted = minimize(loss, start, method="L-BFGS-B", jac=True).x
    return np.asarray(-log_chance(fitted)[own])


def simplest(tried: list[Tried], z: float = 1.0) -> Tried:
    """The first that is within `z` standard errors of the best."""
    return next(one for one in tried if one.behind <= z * one.standard_error)


def compared(judged: dict[str, Trial], k: tuple[int, ...]) -> list[Tried]:
    """Metrics by what they say of the same rows, in the order given."""
    at = {name: int(by.loss.mean(axis=0).argmin()) for name, by in judged.items()}
    each = {name: judged[name].loss[:, place] for name, place in at.items()}
    best = min(each, key=lambda name: float(each[name].mean()))
    tried = []
    for name, loss in each.items():
        excess = loss - each[best]
        error = float(excess.std() / np.sqrt(len(excess)))
        tried.append(Tried(name, float(loss.mean()), float(excess.mean()), error, k[at[name]]))
    return tried
