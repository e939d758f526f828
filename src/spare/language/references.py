"""Deictic references, pointers and shells (section 3.2 of the paper).

1. A `Reference` F names a relation: F(o1, ..., om) = {o | f(o, o1, ..., om)}, with the aggregators g that turn a
   set of objects into numbers.
2. A `Pointer` gamma = (F, slots) applies a reference to earlier slots; slots 0 ... n-1 are the action's objects.
3. A `Shell` Gamma is an ordered list of pointers; pointer t fills slot n + t.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from spare.arguments import check_kind, check_sequence, described, is_whole
from spare.errors import DefinitionError, one_of
from spare.language.relations import Closure, Combination, Condition, Extreme, Formula, FormulaFunction, Relation
from spare.names import check_label

AGGREGATORS = ("mean", "max", "min", "sum", "count")
EVERYONE = "everyone"
"""The name of the reference that every domain has: all objects but the action's own."""


def _arity(name: str, function: Callable) -> int:
    """The number of objects after the first that a formula takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"reference {name!r}: the formula must be a Python function such as lambda o, p: o.x < p.x, "
            f"got {described(function)}"
        ) from error
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    arity = sum(p.default is p.empty for p in positional) - 1  # `k=k` after the objects binds a loop's variable
    if arity < 0 or required or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise DefinitionError(
            f"reference {name!r}: a formula takes the object to select and then its arguments, f(o), f(o, p), ..."
        )
    return arity


def _aggregators(name: str, aggregator: str | Sequence[str]) -> tuple[str, ...]:
    given = (aggregator,) if isinstance(aggregator, str) else aggregator
    chosen = check_sequence(f"reference {name!r}, aggregator", given, "('mean', 'max')")
    for one in chosen:
        if one not in AGGREGATORS:
            raise DefinitionError(f"reference {name!r}: {one_of('aggregator', one, AGGREGATORS)}")
    if not chosen or len(set(chosen)) != len(chosen):
        raise DefinitionError(f"reference {name!r}: give at least one aggregator, each once; got {chosen}")
    return chosen


class Reference:
    """F(o1, ..., om) = {o | f(o, o1, ..., om)}: a named relation formula that returns a set of objects.

    `formula` takes the object to select and then its arguments, and returns a Boolean with broadcasting, for
    example `lambda o, p: jnp.hypot(o.x - p.x, o.y - p.y) < 0.5`. Applied to sets a reference returns the union
    over their members; the arguments themselves are never returned. `aggregator` (one name, or several at once)
    says how a set becomes numbers: mean, max, min, sum, count.
    """

    __slots__ = ("aggregators", "name", "relation")

    def __init__(
        self, name: str, formula: FormulaFunction | Relation, *, aggregator: str | Sequence[str] = "mean"
    ) -> None:
        if callable(name):
            raise DefinitionError(f"reference: its name comes first, then its formula; got {described(name)} first")
        self.name = check_label("reference", name)
        self.relation: Relation = formula if isinstance(formula, Relation) else Formula(formula, _arity(name, formula))
        self.aggregators = _aggregators(name, aggregator)

    @property
    def arity(self) -> int:
        """m, the number of arguments."""
        return self.relation.arity

    @classmethod
    def closest(cls, name: str, key: FormulaFunction, *, aggregator: str | Sequence[str] = "mean") -> Reference:
        """argmin over o of key(o, o1, ...): all tied objects; a key of infinity is never selected."""
        return cls(name, Extreme(key, _arity(name, key)), aggregator=aggregator)

    @classmethod
    def farthest(cls, name: str, key: FormulaFunction, *, aggregator: str | Sequence[str] = "mean") -> Reference:
        """argmax over o of key(o, o1, ...): all tied objects; a key of infinity is never selected."""
        return cls(name, Extreme(key, _arity(name, key), largest=True), aggregator=aggregator)

    @classmethod
    def test(cls, name: str, condition: FormulaFunction) -> Reference:
        """F(p) = {p} where condition(p) holds, and nobody elsewhere: rules see whether it does, as `present(b1)`."""
        if _arity(name, condition) != 0:
            raise DefinitionError(f"test {name!r}: a condition is about one object, as in lambda o: o.mass > 1")
        return cls(name, Condition(condition), aggregator="count")

    def closure(self, name: str | None = None) -> Reference:
        """F⁺: everything reached by one or more steps (above -> above*). Needs arity 1."""
        return self._derived(name or f"{self.name}*", Closure, "closure")

    def inverse(self, name: str | None = None) -> Reference:
        """F⁻¹(p) = {o | p in F(o)} (above -> below). Needs arity 1."""
        return self._derived(name or f"{self.name}-", lambda relation: relation.inverted(), "inverse")

    def _derived(self, name: str, make: Callable[[Relation], Relation], what: str) -> Reference:
        if self.arity != 1:
            raise DefinitionError(
                f"reference {self.name!r}: {what} needs a reference of arity 1, this one has {self.arity}"
            )
        return Reference(name, make(self.relation), aggregator=self.aggregators)

    def _combined(self, operator: str, other: Reference, joint: str) -> Reference:
        advice = "make one with spare.Reference(name, formula)"
        check_kind(f"reference {self.name!r} {operator} ...", other, Reference, advice, DefinitionError)
        if self.arity != other.arity:
            raise DefinitionError(
                f"references {self.name!r} (arity {self.arity}) and {other.name!r} (arity {other.arity}) "
                f"cannot be combined with {operator}: their arities differ"
            )
        relation = Combination(operator, self.relation, other.relation)
        return Reference(f"{self.name}{joint}{other.name}", relation, aggregator=self.aggregators)

    def __and__(self, other: Reference) -> Reference:
        return self._combined("&", other, "-and-")

    def __or__(self, other: Reference) -> Reference:
        return self._combined("|", other, "-or-")

    def __sub__(self, other: Reference) -> Reference:
        return self._combined("-", other, "-not-")

    def __bool__(self) -> bool:
        raise DefinitionError(f"reference {self.name!r}: combine references with &, | and -, not with and, or and not")

    def __invert__(self) -> Reference:
        raise DefinitionError(f"reference {self.name!r}: there is no ~; a - b is everything in a that is not in b")

    def named(self, name: str) -> Reference:
        """The same relation under another name."""
        return Reference(name, self.relation, aggregator=self.aggregators)

    def aggregated(self, *aggregators: str) -> Reference:
        """The same relation with other aggregators."""
        return Reference(self.name, self.relation, aggregator=aggregators)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return (self.name, self.relation, self.aggregators) == (other.name, other.relation, other.aggregators)

    def __hash__(self) -> int:
        return hash((self.name, self.relation, self.aggregators))

    def __repr__(self) -> str:
        return f"Reference({self.name!r}, {self.relation.describe()}, {'+'.join(self.aggregators)})"


@dataclasses.dataclass(frozen=True, order=True)
class Pointer:
    """gamma = (F, (k1, ..., km)): apply the reference named F to the slots k1, ..., km."""

    reference: str
    arguments: tuple[int, ...]

    def __post_init__(self) -> None:
        check_label("reference", self.reference)
        slots = check_sequence(f"pointer {self.reference}, slots", self.arguments, "(0,)")
        object.__setattr__(self, "arguments", slots)
        if not all(is_whole(slot) for slot in slots):
            raise DefinitionError(f"pointer {self.reference}: slots are whole numbers, such as (0,), got {slots}")
        if any(slot < 0 for slot in self.arguments):
            raise DefinitionError(f"pointer {self.reference}{self.arguments}: slot numbers start at 0")


@dataclasses.dataclass(frozen=True)
class Shell:
    """Gamma = (gamma_1, ..., gamma_T): an ordered list of pointers over `roles` action objects.

    Pointer t fills slot `roles + t` and may only point at slots before it.
    """

    roles: int
    pointers: tuple[Pointer, ...] = ()

    def __post_init__(self) -> None:
        if not is_whole(self.roles):
            raise DefinitionError(f"shell: roles is how many objects the action has, got {described(self.roles)}")
        if self.roles < 0:
            raise DefinitionError(f"shell: roles is how many objects the action has, got {self.roles}")
        example = "spare.Pointer('on', (0,))"
        pointers = check_sequence("shell, pointers", self.pointers, f"({example},)")
        for one in pointers:
            check_kind("shell, pointers", one, Pointer, f"write {example}", DefinitionError)
        object.__setattr__(self, "pointers", pointers)
        for position, pointer in enumerate(self.pointers):
            filled = self.roles + position
            if any(slot >= filled for slot in pointer.arguments):
                raise DefinitionError(
                    f"pointer {position} ({pointer.reference}{pointer.arguments}) points forward: "
                    f"only slots 0 to {filled - 1} are filled before it"
                )

    def __len__(self) -> int:
        return len(self.pointers)

    def __iter__(self) -> Iterator[Pointer]:
        return iter(self.pointers)

    @property
    def slots(self) -> int:
        """n + T: the action's objects and one slot for each pointer."""
        return self.roles + len(self.pointers)

    def extend(self, pointer: Pointer) -> Shell:
        """Gamma with one more pointer at its end."""
        return Shell(self.roles, (*self.pointers, pointer))

    def slot_names(self, roles: Sequence[str]) -> tuple[str, ...]:
        """The role names, then b1, b2, ... for what the pointers find."""
        return (*roles, *(f"b{position + 1}" for position in range(len(self))))

    def show(self, roles: Sequence[str]) -> str:
        """`above(target) -> b1, above(b1) -> b2`; a dash for the empty shell."""
        names = self.slot_names(roles)
        parts = (
            f"{pointer.reference}({', '.join(names[slot] for slot in pointer.arguments)}) -> {names[self.roles + t]}"
            for t, pointer in enumerate(self)
        )
        return ", ".join(parts) or "-"


def next_pointers(references: Iterable[Reference], slots: int) -> tuple[Pointer, ...]:
    """R_i: every pointer that may follow when `slots` slots are filled, by reference, then by argument slots."""
    return tuple(
        Pointer(reference.name, arguments)
        for reference in references
        for arguments in itertools.product(range(slots), repeat=reference.arity)
    )


def count_shells(references: Iterable[Reference], roles: int, longest: int) -> int:
    """sum over l <= longest of prod over t < l of |R_t|: all shells up to a length, without listing them."""
    arities = [reference.arity for reference in references]
    total = product = 1
    for filled in range(roles, roles + longest):
        product *= sum(filled**arity for arity in arities)
        total += product
    return total
