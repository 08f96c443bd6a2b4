"""Whether `nescio demo` shows what it promises, measured on all of its data with its own settings.

python -m benchmarks.demo
"""

import sys

from nescio.demo._run import demo_inputs, demo_settings, run_demo

LEAST_ACCURACY, LEAST_ENTROPY_RATIO, LEAST_AUROC = 0.97, 2.5, 0.92


def main() -> None:
    """Train both networks, print, and end with 1 where a promise is missed."""
    outcome = run_demo(demo_settings(), demo_inputs())
    evidential, softmax = outcome.evidential.figures, outcome.softmax.figures
    ratio = evidential["entropy_letters"] / softmax["entropy_letters"]
    print(f"accuracy {evidential['accuracy']:.3f}, {softmax['accuracy']:.3f}   (at least {LEAST_ACCURACY})")
    print(f"entropy on letters, evidential / softmax {ratio:.2f}   (at least {LEAST_ENTROPY_RATIO})")
    print(f"AUROC {evidential['auroc']:.3f}, {softmax['auroc']:.3f}   (at least {LEAST_AUROC}, and more)")
    kept = min(evidential["accuracy"], softmax["accuracy"]) >= LEAST_ACCURACY and ratio >= LEAST_ENTROPY_RATIO
    sys.exit(not (kept and evidential["auroc"] >= max(LEAST_AUROC, softmax["auroc"])))


if __name__ == "__main__":
    main()
