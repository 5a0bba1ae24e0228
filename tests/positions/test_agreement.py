import numpy as np
import pytest

from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.positions.agreement import (
    ErrorRates,
    Rated,
    confusion,
    corrected_first_shares,
    kappa,
    paired_grades,
    reweighted,
)

# rows: what people say; columns: what this judge then says
CONFUSION = np.array([[0.7, 0.2, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.5, 0.2], [0.0, 0.1, 0.2, 0.7]])
LABELS = np.array([0.5, 0.25, 0.15, 0.1])


def simulated(rng: np.random.Generator, pieces: int) -> list[Rated]:
    human = rng.choice(4, size=pieces, p=LABELS)
    judge = [int(rng.choice(4, p=CONFUSION[grade])) for grade in human]
    return [Rated(int(h), j, str(number)) for number, (h, j) in enumerate(zip(human, judge, strict=True))]


def true_kappa(power: int) -> float:
    """Kappa of the simulated judge in an endless sample."""
    joint = LABELS[:, None] * CONFUSION
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4))).astype(float)
    costs = (distance > 0).astype(float) if power == 0 else distance**power
    chance = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
    return float(1 - (joint * costs).sum() / (chance * costs).sum())


def test_kappa_of_a_hand_worked_table() -> None:
    # 50 pieces: both 0: 20, both 1: 15, people 0 judge 1: 5, people 1 judge 0: 10
    counts = {(0, 0): 20, (1, 1): 15, (0, 1): 5, (1, 0): 10}
    items = [Rated(h, j, str(n)) for (h, j), count in counts.items() for n in range(count)]
    # observed .70; chance .5 x .6 + .5 x .4 = .50; kappa .4
    assert kappa(items).value == pytest.approx(0.4)


def test_weighting_forgives_near_misses() -> None:
    near = [Rated(g, min(3, g + 1), f"{g}{n}") for g in range(4) for n in range(5)]
    values = [kappa(near, weighting=weighting).value for weighting in ("none", "linear", "quadratic")]
    assert values == sorted(values)
    assert values[2] > values[0] + 0.3


def test_kappa_intervals_cover_the_truth() -> None:
    rng = generator("kappa coverage", 0)
    covered = {0: 0, 2: 0}
    for number in range(150):
        items = simulated(rng, 100)
        plain = kappa(items, resamples=400, seed=number)
        weighted = kappa(items, weighting="quadratic", resamples=400, seed=number)
        covered[0] += plain.low <= true_kappa(0) <= plain.high
        covered[2] += weighted.low <= true_kappa(2) <= weighted.high
    assert all(0.90 <= count / 150 <= 0.99 for count in covered.values())


def test_a_sample_by_label_weighted_back_is_unbiased() -> None:
    rng = generator("stratified", 0)
    values = []
    for _ in range(40):
        sample = [
            Rated(label, int(rng.choice(4, p=CONFUSION[label])), f"{label}-{n}")
            for label in range(4)
            for n in range(60)
        ]
        weighted = reweighted(sample, {label: int(1000 * LABELS[label]) for label in range(4)})
        values.append(kappa(weighted, resamples=2).value)
    assert np.mean(values) == pytest.approx(true_kappa(0), abs=0.01)
    plain = kappa(sample, resamples=2).value
    assert abs(plain - true_kappa(0)) > 0.02  # without weights the labels' shares are wrong


def test_a_label_without_a_sample_cannot_be_weighted_back() -> None:
    with pytest.raises(DataError, match="label 3"):
        reweighted([Rated(0, 0, "a")], {0: 5, 3: 1})


def test_pieces_the_judge_did_not_grade_are_counted() -> None:
    human = {("q", "d_0"): 1, ("q", "d_1"): 0, ("q", "d_2"): 3}
    both, missing = paired_grades(human, {("q", "d_0"): 2, ("q", "d_1"): None})
    assert (both, missing) == ([Rated(1, 2, "q")], 2)


def test_grades_outside_the_scale_and_single_clusters_are_refused() -> None:
    with pytest.raises(DataError, match="0 to 3"):
        confusion([Rated(5, 0, "a")])
    with pytest.raises(DataError, match="1 clusters"):
        kappa([Rated(0, 0, "a"), Rated(1, 1, "a")])


def test_error_rates_come_from_the_table() -> None:
    items = [Rated(0, 0, "a")] * 8 + [Rated(0, 2, "a")] * 2 + [Rated(3, 3, "a")] * 9 + [Rated(2, 0, "a")]
    assert ErrorRates.of(items) == ErrorRates(sensitivity=0.9, specificity=0.8)
    with pytest.raises(DataError, match="graded below 1"):
        ErrorRates.of([Rated(2, 2, "a")])


def test_a_judge_like_a_coin_cannot_be_corrected() -> None:
    with pytest.raises(DataError, match="coin"):
        ErrorRates(0.5, 0.5)


def test_correction_takes_a_lenient_judge_back_to_the_truth() -> None:
    """Half the documents have their only relevant piece first, half last; the judge also marks 15% of the others."""
    rng = generator("lenient", 0)
    rates, pieces, documents = ErrorRates(0.9, 0.85), 6, 6000
    truth = np.zeros((documents, pieces), dtype=bool)
    truth[: documents // 2, 0] = truth[documents // 2 :, -1] = True
    draws = rng.random(truth.shape)
    verdicts = np.where(truth, draws < rates.sensitivity, draws < 1 - rates.specificity)
    corrected = corrected_first_shares(verdicts.tolist(), rates, chunks=6)
    assert corrected == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.5, 1.0], abs=0.04)
    naive = verdicts[:, :5].any(axis=1).mean()
    assert naive > 0.65  # what the judge alone would say


def test_a_perfect_judge_needs_no_correction() -> None:
    graded = [[True, False, False], [False, False, True], [False, True, True], [False, False, False]]
    assert corrected_first_shares(graded, ErrorRates(1, 1), chunks=3) == pytest.approx([1 / 3, 2 / 3, 1])
