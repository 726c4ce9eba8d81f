"""The report of a certificate."""

from flows.engine.results import Outcome
from flows.report.model import Frozen, Interval, Saved, fields_of
from pipeline.diagnostics.reliability import clopper_pearson
from pipeline.methods.speculate_correct import Certificate
from storage.errors import amount, as_text


class ErrorBound(Frozen):
    """A bound on the error against labels such as those given."""

    estimate: float
    lower: float
    upper: float
    epsilon: float
    """Half width."""
    epsilon_validation: float
    epsilon_remainder: float
    epsilon_cutoff: float
    epsilon_sampling: float
    n_rules: int
    """Rules that are certified at once, as the labels chose this one among them."""

    @classmethod
    def of(cls, bound: Certificate, n_rules: int) -> "ErrorBound":
        """A certificate as a report holds it."""
        fields = fields_of(bound, "estimate", "lower", "upper")
        fields |= {f"epsilon_{name}": size for name, size in vars(bound.epsilon).items()}
        return cls(**fields, epsilon=bound.half_width, n_rules=n_rules)


class HeldOut(Frozen):
    """The error on rows that were held out."""

    n_rows: int
    error: float
    lower: float
    upper: float
    """Clopper & Pearson's interval; it fails with the certificate's delta at most."""

    @classmethod
    def of(cls, n_rows: int, error: float, delta: float) -> "HeldOut":
        """What `n_rows` rows with this share of wrong predictions say."""
        low, high = clopper_pearson(round(error * n_rows), n_rows, delta)
        return cls(n_rows=n_rows, error=error, lower=low, upper=high)


class CertifyReport(Saved):
    """What a certifying found."""

    n_rows: int
    k: int
    k_fixed: bool
    """Whether k was given; else the labels chose it, and all k tried are certified at once."""
    delta: float
    """Probability that a bound fails, for each bound by itself."""
    r: int
    """Validation subsets."""
    m: int
    """Rows of a validation subset."""
    list_length: int
    samples: int
    short_rows: int
    majority: ErrorBound
    threshold: float | None
    """Of two classes."""
    trained_rule: ErrorBound | None
    """Of the rule with the training's threshold; None of more than two classes."""
    clean_error: Interval | None
    """Of the training's rule against clean labels; None where the rates do not allow it."""
    clean_reason: str
    held_out: HeldOut | None = None
    """The trained rule on rows whose scores and labels were given."""
    warnings: list[str]
    seconds: dict[str, float]
    steps: dict[str, Outcome]


def certify_text(report: CertifyReport) -> str:
    """The report of a certificate as a person reads it."""
    chosen = "given" if report.k_fixed else "chosen by the labels, which is paid for"
    lines = [
        f"error of k-nearest neighbors, k = {report.k} ({chosen}), on rows like these "
        f"{report.n_rows:,}, against labels like the given ones",
        f"each bound holds with probability {1 - report.delta:g} or more",
        _line("majority", report.majority),
        *_corrected(report),
        *_held_out(report),
        f"  (r, m) = ({report.r}, {report.m:,}), lists of {report.list_length}, "
        f"{report.samples:,} samples",
        *(f"WARNING: {line}" for line in report.warnings),
    ]
    return as_text(lines)


def _line(name: str, bound: ErrorBound) -> str:
    made_of = " + ".join(f"{size:.4f}" for name, size in bound if name.startswith("epsilon_"))
    return (
        f"  {name}: {bound.lower:.4f} to {bound.upper:.4f}, estimate {bound.estimate:.4f} "
        f"± {bound.epsilon:.4f} ({made_of})"
    )


def _corrected(report: CertifyReport) -> list[str]:
    if report.trained_rule is None:
        return [f"  corrected rule, clean labels: {report.clean_reason}"]
    line = _line(f"threshold {report.threshold:.4f}", report.trained_rule)
    if report.clean_error is None:
        return [line, f"  against clean labels: {report.clean_reason}"]
    low, high = report.clean_error
    clean = f"  the same against clean labels: {low:.4f} to {high:.4f}; {report.clean_reason}"
    return [line, clean]


def _held_out(report: CertifyReport) -> list[str]:
    """What rows that are held out say, or would say, to set the bounds beside."""
    test = report.held_out
    if test is not None:
        return [
            f"  {test.n_rows:,} held-out rows, the rule of the training: {test.lower:.4f} to "
            f"{test.upper:.4f}, error {test.error:.4f} against the labels given for them"
        ]
    rows, error = max(1, report.n_rows // 10), min(max(report.majority.estimate, 0.0), 1.0)
    would = HeldOut.of(rows, error, report.delta)
    return [
        f"  {amount(rows, 'row')}, a tenth, held out would bound such an error within "
        f"{would.upper - would.lower:.4f}; the majority's bound is "
        f"{report.majority.upper - report.majority.lower:.4f} wide"
    ]
