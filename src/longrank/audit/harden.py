"""From a ranker to the cheapest wrapper that makes it read to the end: probe, audit, ceiling, and try in turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longrank.audit.design import AuditDesign
from longrank.audit.memory import RememberedScores
from longrank.audit.run import Audit, audit
from longrank.audit.verdict import Outcome
from longrank.audit.window import LONGEST, Window, probe_window
from longrank.audit.wrappers import WRAPPERS, background_scores
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.addresses import shown_address
from longrank.core.contracts import Ranker, Tokenizer
from longrank.core.disk import write_atomic
from longrank.core.errors import SettingsError
from longrank.core.fingerprint import fingerprint
from longrank.core.settings import Settings, load_settings
from longrank.core.types import Collection, Document, Query, Scores, Spec
from longrank.positions.ceiling import Reach, reach
from longrank.positions.gold import gold_estimator
from longrank.positions.profiling import profile_positions

_CHUNK_WORDS = 200  # of a ranker whose window is not known
_LARGEST_CHUNK = 400
_BACKGROUND_QUERIES, _BACKGROUND_CHUNKS = 10, 20


@dataclass(frozen=True)
class Trial:
    """A wrapper, what its audit found, and how many times the words of the bare ranker it reads."""

    wrapper: Spec | None
    audit: Audit
    cost: float

    @property
    def passes(self) -> bool:
        """Whether every place was shown to be within the tolerance of the average place."""
        return self.audit.findings.outcome is Outcome.robust


@dataclass(frozen=True)
class Hardened:
    """The course of a hardening; ``chosen`` is the first trial that passes, None if none does.

    ``visible`` is the share of the collection's relevant pairs whose evidence begins inside the window, where the
    collection has gold spans and the ranker a window.
    """

    ranker: str
    window: Window
    trials: tuple[Trial, ...]
    visible: Reach | None

    @property
    def chosen(self) -> Trial | None:
        """The cheapest that passes."""
        return next((trial for trial in self.trials if trial.passes), None)

    @property
    def unsettled(self) -> bool:
        """Whether nothing follows: the last trial was broken off, or the ranker could not be audited."""
        bare, last = self.trials[0].audit, self.trials[-1].audit
        return bool(last.responses.stopped) or bare.findings.outcome is Outcome.not_auditable

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        bare = self.trials[0]
        if bare.passes:
            return f"Do nothing. {bare.audit.findings.reason}"
        if self.unsettled:
            return f"No advice can be given. {self.trials[-1].audit.findings.reason}"
        if self.chosen is not None and self.chosen.wrapper is not None:
            return f"Wrap it in {self.chosen.wrapper.name}, which reads {self.chosen.cost:.1f} times as many words."
        return f"No wrapper passed. {self._least_lost()}A ranker trained on late evidence is the other way."

    def _least_lost(self) -> str:
        """The variant that comes closest, and how many queries it may pass with where more would do."""
        by_loss = [
            (lost.value, trial)
            for trial in self.trials[1:]
            if trial.audit.findings.outcome is Outcome.inconclusive and (lost := trial.audit.findings.lost) is not None
        ]
        if not by_loss:
            return ""
        value, trial = min(by_loss, key=lambda found: found[0])
        label = "" if trial.wrapper is None else trial.wrapper.name
        needed = trial.audit.findings.queries_needed
        may = f" and may pass with {needed} queries" if needed else ""
        return f"{label} lost least ({min(1.0, value):.0%}){may}. "


class HardenedSettings(Settings):
    """The file that ``longrank harden`` writes: a ranker's name and, if one is needed, its wrapper."""

    ranker: str
    wrapper: str | None = None
    params: Mapping[str, Any] = {}


def harden(
    ranker: Ranker,
    design: AuditDesign,
    *,
    name: str,
    identity: str = "",
    collection: Collection | None = None,
    longest: int = LONGEST,
    most_cost: float = 8.0,
    folder: Path | None = None,
) -> Hardened:
    """Probe and audit the ranker, then try wrappers from cheap to dear until one passes.

    ``folder`` keeps the answers of every audit and every score, so that an interrupted hardening goes on where it was
    and wrappers share what was scored; those that read more than ``most_cost`` times the words are not tried.
    """
    window = probe_window(ranker, longest=longest, tokenizer=design.tokenizer)
    visible = None if collection is None else _visible(collection, window, design.tokenizer)
    known = (
        ranker if folder is None else RememberedScores(ranker, folder / "scores.sqlite", fingerprint(name, identity))
    )

    def trial(spec: Spec | None, cost: float) -> Trial:
        wrapped = known if spec is None else build_wrapper(known, spec)
        label = shown_address(name) if spec is None else f"{shown_address(name)} + {spec.name}"
        journal = None if folder is None else folder / f"{'bare' if spec is None else spec.name}.jsonl"
        whole = fingerprint(identity, spec)
        return Trial(spec, audit(wrapped, design, name=label, identity=whole, journal=journal), cost)

    trials = [trial(None, 1.0)]
    if not trials[0].passes and trials[0].audit.findings.outcome is not Outcome.not_auditable:
        for spec, cost in _candidates(known, design, window, most_cost=most_cost):
            trials.append(trial(spec, cost))
            if trials[-1].passes or trials[-1].audit.responses.stopped:
                break
    return Hardened(name, window, tuple(trials), visible)


def build_wrapper(ranker: Ranker, spec: Spec) -> Ranker:
    """A ranker in the wrapper of a spec."""
    return WRAPPERS.build(Spec(spec.name, {"ranker": ranker, **spec.params}))


def write_config(hardened: Hardened, path: Path) -> None:
    """Write the recommended ranker as TOML, for ``load_hardened``; what may be a key in its address is left out."""
    shown = shown_address(hardened.ranker)
    left_out = "# user, password or key were left out of this address: add them, or set LONGRANK_API_KEY"
    lines = [*([] if shown == hardened.ranker else [left_out]), f"ranker = {_toml(shown)}"]
    chosen = hardened.chosen
    if chosen is not None and chosen.wrapper is not None:
        lines += [f"wrapper = {_toml(chosen.wrapper.name)}", "", "[params]"]
        lines += [f"{key} = {_toml(value)}" for key, value in chosen.wrapper.params.items()]
    write_atomic(path, "\n".join(lines) + "\n")


def load_hardened(path: Path, load: Callable[[str], Ranker]) -> Ranker:
    """The ranker of a file written by ``write_config``; ``load`` makes a ranker from its name."""
    settings = load_settings(HardenedSettings, path)
    ranker = load(settings.ranker)
    return ranker if settings.wrapper is None else build_wrapper(ranker, Spec(settings.wrapper, settings.params))


def _candidates(
    ranker: Ranker, design: AuditDesign, window: Window, *, most_cost: float
) -> Iterator[tuple[Spec, float]]:
    """Wrappers with sizes that suit the window and how many times the words they read, cheap ones first.

    The mean of chunks is not among them: it thins the evidence out, and a flat curve far down helps nobody.
    """
    size = min(_LARGEST_CHUNK, max(16, (window.words or 2 * _CHUNK_WORDS) * 9 // 10))
    chunks = {"size": size, "stride": max(8, size // 2)}
    rotations = min(16, max(2, -(-2 * design.settings.lengths[-1] // size)))
    specs = [
        Spec("chunk-max", chunks),
        Spec("calibrated-max", {"background": (0.0,), **chunks}),
        Spec("first-and-best", chunks),
        Spec("chunk-max-end", chunks),
        Spec("rotate", {"rotations": rotations}),
    ]
    for spec, cost in sorted(((spec, _cost(spec, design)) for spec in specs), key=lambda found: found[1]):
        if cost > most_cost:
            return
        # a background is asked for only when its turn has come
        learnt = {"background": background(ranker, design, size=size)} if "background" in spec.params else {}
        yield Spec(spec.name, {**spec.params, **learnt}), cost


def background(ranker: Ranker, design: AuditDesign, *, size: int) -> tuple[float, ...]:
    """Scores of irrelevant chunks of about ``size`` words, made of the design's filler, for ``calibrated-max``."""
    chunks, words = list[str](), list[str]()
    for filler in design.source.filler:
        words += filler.text.split()
        if len(words) >= size:
            chunks.append(" ".join(words[:size]))
            words = []
        if len(chunks) == _BACKGROUND_CHUNKS:
            break
    scores = background_scores(ranker, design.queries[:_BACKGROUND_QUERIES], chunks or [" ".join(words)])
    return tuple(round(score, 6) for score in scores)


@dataclass
class _WordCount:
    """No ranker, but the count of the words it would be shown."""

    words: int = 0

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.words += sum(len(document.text.split()) for document in documents)
        return Scores([0.0] * len(documents))


def _cost(spec: Spec, design: AuditDesign) -> float:
    """Words read for one distractor of the greatest length, against the words it has."""
    probe = design.probe(design.queries[0])
    document = probe.by_length[-1].distractors[0]
    counting = _WordCount()
    build_wrapper(counting, spec).score(probe.query, [document])
    return counting.words / max(1, len(document.text.split()))


def _visible(collection: Collection, window: Window, tokenizer: Tokenizer) -> Reach | None:
    if not collection.spans or window.words is None or window.cut != "end":
        return None
    counted = tokenizer if tokenizer.name == "words-v1" else WordTokenizer()
    return reach(profile_positions(collection, gold_estimator(collection.spans, counted), counted), window=window.words)


def _toml(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise SettingsError(f"a wrapper's parameter of type {type(value).__name__} cannot be written as TOML")
