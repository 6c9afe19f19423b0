"""Every exception that DRSR raises on purpose.

Our exception hierarchy:

* DrsrError
  x InputError                what the user handed in cannot be used; nothing was changed
    + RequestError            not a readable OpenAI or Anthropic request
      . RequestTooLarge       larger than any language model's window could take
    + SettingsError           an environment variable, drsr.toml or command-line value is wrong
    + NothingThere            the place to read runs from does not exist, or no file is there
    + FrameError              labelled examples that nothing may be fitted on or judged by
      . SplitRefused          rows of the test split, or of another split than the one asked for
      . FeaturesMissing       a labelled state without features
      . ValueNotFinite        NaN or infinity among features or labels
      . LabelersMixed         harms measured by different language models, rules or tolerances
      . OneClassOnly          no unsafe example, or no safe one
      . OneTrajectoryOnly     a single source trajectory
    + LayoutMismatch          features laid out differently from what the scorer, the view or the examples expect
    + FeatureViewError        no such feature view, or one that another language model was read for
      . NotOnline             a column that nobody can know before the decision
    + ManifestError           a list of evaluation tasks that cannot be run as it is
      . TasksSupervised       it names tasks whose recorded runs are in the train or validation split
      . SuiteNotInstalled     it names a suite that nothing installed here can run
    + VersionTaken            a policy of that version was published before, with other content
    + ReceiptError            a decision's receipt is not there, or does not hold what was asked for
  x AlignmentError            token spans cannot be made exact; the request stays unchanged
  x BackboneError             a language model cannot be used
    + UnknownBackbone         no backbone has that name
    + BackboneNotFetched      named, but its weights are not on this machine yet
    + BackboneCorrupt         a file's hash is not the expected one
    + WindowExceeded          more tokens than the model can read at once
    + NotEnoughMemory         the device has no room for the model, or for what it is to read
  x FeatureError              a candidate's features cannot be computed; a row of zeros never takes their place
    + EmptySpan               a candidate without a token of its own
    + OutsideView             a candidate the backbone does not see
    + MisalignedSpan          token spans that do not fit the request, the view or the forward that was watched
    + NonFiniteFeature        a column came out infinite or not a number
  x ScorerError               a trained scorer cannot be used
    + ScorerCorrupt           its file is missing, cut short, of another format or has another hash
    + ScorerNotTrained        none was trained on the present labels, features and parameters
  x PolicyError               a frozen policy cannot be used
    + PolicyCorrupt           one of its files is missing, cut short, not readable or has another hash
    + PolicyMismatch          made for another backbone, feature layout, renderer or candidate rule
    + PolicyUntrusted         its wheel is not signed with the key that is trusted
    + ReleaseRefused          a check failed before publishing; nothing was published
  x ExpectationFailed         the data breaks a rule that it must keep; nothing was made from it
  x NotCarriedOver            a decision could not be carried over to a framework's own objects; they stay unchanged
  x ComparatorError           a comparator of the evaluation made nothing of a request, which then stays as it is
    + SummariserRefused       the model that it asks made nothing of this one question
  x SummariserFailed          the model that comparators ask is out of reach; the run stops and can go on later
  x AgentFailed               the acting model of an evaluation gave no usable answer; the run stops and can go on later
  x MissingExtra              a third-party package of an optional extra is not installed
  x SourceUnreachable         the storage that runs are read from does not answer
  x CatalogError              the catalog or the artifact store cannot be used as it is
    + CatalogUnreachable      no such database, no permission, locked, or not answering
    + CatalogRevisionMismatch the database is at another migration than this code
    + ArtifactCorrupt         a stored file is missing, cut short or has another hash

Expected outcomes are not exceptions: a request that cannot be pruned is an `Ineligible` with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence


class DrsrError(Exception):
    """Base of all. `str(error)` says what is wrong; `where` says in which place; `hint` says what to do."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


class InputError(DrsrError):
    """Input that cannot be used; nothing was changed."""


class RequestError(InputError):
    """Not a readable OpenAI or Anthropic request."""


class RequestTooLarge(RequestError):
    """Larger than any language model's window could take."""


class SettingsError(InputError):
    """An environment variable, drsr.toml or command-line value is wrong."""


class NothingThere(InputError):
    """The place to read runs from does not exist, or holds no file."""


class FrameError(InputError):
    """Labelled examples that nothing may be fitted on or judged by."""


class SplitRefused(FrameError):
    """Rows of the test split, or of another split than the one asked for."""


class FeaturesMissing(FrameError):
    """A labelled state without features."""


class ValueNotFinite(FrameError):
    """NaN or infinity among features or labels."""


class LabelersMixed(FrameError):
    """Harms measured by different language models, rules or tolerances."""


class OneClassOnly(FrameError):
    """No unsafe example, or no safe one."""


class OneTrajectoryOnly(FrameError):
    """A single source trajectory."""


class LayoutMismatch(InputError):
    """Features laid out differently from what the scorer, the view or the examples expect."""


class FeatureViewError(InputError):
    """The feature view does not exist, or was made with another language model."""


class NotOnline(FeatureViewError):
    """A column that nobody can know before the decision."""


class AlignmentError(DrsrError):
    """Token spans cannot be made exact; the request stays unchanged."""

    def __init__(
        self, what: str, *, where: str | None = None, content: int | None = None, message: int | None = None
    ) -> None:
        """`content` is the position of the text in the batch to be encoded, `message` that of its message, if any."""
        super().__init__(what, where=where if content is None else f"content {content}")
        self.content = content
        self.message = message


class BackboneError(DrsrError):
    """A language model cannot be used."""


class UnknownBackbone(BackboneError, InputError):
    """No backbone has that name."""


class BackboneNotFetched(BackboneError, InputError):
    """Named, but its weights are not on this machine yet."""


class BackboneCorrupt(BackboneError):
    """A file's hash is not the expected one."""


class WindowExceeded(BackboneError):
    """More tokens than the model can read at once."""


class NotEnoughMemory(BackboneError):
    """The device has no room for the model, or for what it is to read."""


class FeatureError(DrsrError):
    """A candidate's features cannot be computed; a row of zeros never takes their place."""


class EmptySpan(FeatureError):
    """A candidate without a token."""


class OutsideView(FeatureError):
    """A candidate the backbone does not see."""


class MisalignedSpan(FeatureError):
    """Token spans that do not fit the request, the view or the forward that was watched."""


class NonFiniteFeature(FeatureError):
    """A column came out infinite or not a number."""


class ScorerError(DrsrError):
    """A trained scorer cannot be used."""


class ScorerCorrupt(ScorerError):
    """Its file is missing, cut short, of another format or has another hash."""


class ScorerNotTrained(ScorerError, InputError):
    """None was trained on the present labels, features and parameters."""


class PolicyError(DrsrError):
    """A frozen policy cannot be used."""


class PolicyCorrupt(PolicyError):
    """One of its files is missing, cut short, not readable or has another hash."""


class PolicyMismatch(PolicyError):
    """Made for another backbone, feature layout, renderer or candidate rule."""


class PolicyUntrusted(PolicyError):
    """Its wheel is not signed with the key that is trusted; nothing of it was read."""


class ManifestError(InputError):
    """A list of evaluation tasks that cannot be run as it is."""


class TasksSupervised(ManifestError):
    """It names tasks whose recorded runs are in the train or validation split."""


class SuiteNotInstalled(ManifestError):
    """It names a suite that nothing installed here can run."""


class VersionTaken(InputError):
    """A policy of that version was published before, with other content."""


class ReceiptError(InputError):
    """A decision's receipt is not there, or does not hold what was asked for."""


class ExpectationFailed(DrsrError):
    """The data breaks a rule that it must keep; nothing was made from it. `verdicts` are the rules that it breaks."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        verdicts: Sequence[tuple[object, ...]] = (),
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.verdicts = tuple(verdicts)


class NotCarriedOver(DrsrError):
    """A decision could not be carried over to a framework's own objects; they stay unchanged."""


class ReleaseRefused(PolicyError):
    """A check failed before publishing; nothing was published. `gates` are all checks that were run."""

    def __init__(self, what: str, *, hint: str | None = None, gates: Sequence[tuple[str, bool, str]] = ()) -> None:
        super().__init__(what, hint=hint)
        self.gates = tuple(gates)


class ComparatorError(DrsrError):
    """A comparator of the evaluation made nothing of a request, which then stays as it is; that is counted."""


class SummariserRefused(ComparatorError):
    """The model that a comparator asks made nothing of this one question; others it may answer."""


class SummariserFailed(DrsrError):
    """The model that comparators ask is out of reach, for any question; the run stops and can go on later."""


class AgentFailed(DrsrError):
    """The acting model of an evaluation gave no usable answer; the run stops, and can be continued later."""


class MissingExtra(DrsrError):
    """A third-party package of an optional extra is not installed."""

    def __init__(self, package: str, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed",
            hint=f"pip install 'drsr[{extra}]'",
        )


class SourceUnreachable(DrsrError):
    """The storage that runs are read from does not answer; `passing` as CatalogUnreachable has it."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, passing: bool = True) -> None:
        super().__init__(what, where=where, hint=hint)
        self.passing = passing


class CatalogError(DrsrError):
    """The catalog or the artifact store cannot be used as it is."""


class CatalogUnreachable(CatalogError, InputError):
    """The database does not exist, denies permission, is locked, or does not answer.

    `passing` says whether the same may well succeed in a moment: after a lock or a lost connection, not on a full disk.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, passing: bool = False) -> None:
        super().__init__(what, where=where, hint=hint)
        self.passing = passing


class CatalogRevisionMismatch(CatalogError, InputError):
    """The database is at another migration than this code."""


class ArtifactCorrupt(CatalogError):
    """A stored file is missing, cut short or has another hash."""
